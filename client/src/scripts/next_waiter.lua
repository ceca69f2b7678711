-- Takes the longest waiting client that still listens off the queue, and wakes it.
-- The bound keeps one script short however many waiters died at once; the rest fall back to time.
local function next_waiter(queue)
  for _ = 1, 128 do
    local waiter = redis.call('LPOP', queue)
    if not waiter then return end
    local token = string.sub(waiter, 1, 32)
    if wake(string.sub(waiter, 33), token) > 0 then return token end
  end
end
