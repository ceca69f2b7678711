-- Lets in those at the head of the queue who fit with the present holders: one writer, or readers.
-- A waiter is its token, its mode and its address.
local function admit(writer, readers, queue, now, turn_ms, me, counter, keep_ms)
  drop_expired(readers, now)
  for _ = 1, 128 do
    local head = redis.call('LINDEX', queue, 0)
    if not head or redis.call('EXISTS', writer) == 1 then return end
    local token, mode = string.sub(head, 1, 32), string.sub(head, 33, 33)
    if mode == 'w' and redis.call('ZCARD', readers) > 0 then return end
    redis.call('LPOP', queue)
    local lease, value = tonumber(turn_ms), token .. ' 0 0 '
    if token ~= me then lease, value = offer(token, string.sub(head, 34), turn_ms, counter, keep_ms) end
    if lease and mode == 'w' then
      redis.call('SET', writer, value, 'PX', lease)
    elseif lease then
      hold(readers, token, now + lease)
    end
  end
end

local function is_writer(writer, token)
  local value = redis.call('GET', writer)
  return value and string.sub(value, 1, 32) == token
end
