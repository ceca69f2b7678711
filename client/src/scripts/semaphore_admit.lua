-- Gives free permits to those who wait for them, in their order.
local function admit(permits, queue, limit, now, turn_ms, me, counter, keep_ms)
  drop_expired(permits, now)
  for _ = 1, 128 do
    local waiter = redis.call('ZCARD', permits) < limit and redis.call('LPOP', queue)
    if not waiter then return end
    local token, lease = string.sub(waiter, 1, 32), tonumber(turn_ms)
    if token ~= me then lease = offer(token, string.sub(waiter, 33), turn_ms, counter, keep_ms) end
    if lease then hold(permits, token, now + lease) end
  end
end
