-- Lets in those at the head of the queue who fit with the present holders: one writer, or readers.
-- A waiter is its token, its mode and its channel; nobody on the channel means that it has died.
local function admit(writer, readers, queue, now, turn_ms, me)
  drop_expired(readers, now)
  for _ = 1, 128 do
    local head = redis.call('LINDEX', queue, 0)
    if not head or redis.call('EXISTS', writer) == 1 then return end
    local token, mode = string.sub(head, 1, 32), string.sub(head, 33, 33)
    if mode == 'w' and redis.call('ZCARD', readers) > 0 then return end
    redis.call('LPOP', queue)
    if token == me or redis.call('PUBLISH', string.sub(head, 34), token) > 0 then
      if mode == 'w' then
        redis.call('SET', writer, token .. ' 0 0 ', 'PX', turn_ms)
      else
        hold(readers, token, now + turn_ms)
      end
    end
  end
end

local function is_writer(writer, token)
  local value = redis.call('GET', writer)
  return value and string.sub(value, 1, 32) == token
end
