-- Gives a free lock to the longest waiting client that still listens, or names the caller if that is
-- the one. The bound keeps one script short however many waiters died at once.
local function hand_over(lock, queue, counter, turn_ms, keep_ms, me)
  for _ = 1, 128 do
    local waiter = redis.call('LPOP', queue)
    if not waiter then return end
    local token = string.sub(waiter, 1, 32)
    if token == me then return token end
    local lease, value = offer(token, string.sub(waiter, 33), turn_ms, counter, keep_ms)
    if lease then
      redis.call('SET', lock, value, 'PX', lease)
      return token
    end
  end
end
