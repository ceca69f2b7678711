-- Takes the longest waiting client that still listens off the queue, and wakes it.
-- A waiter is its token followed by its channel; nobody on the channel means that it has died.
-- The bound keeps one script short however many waiters died at once; the rest fall back to time.
local function next_waiter(queue, me)
  for _ = 1, 128 do
    local waiter = redis.call('LPOP', queue)
    if not waiter then return nil end
    local token = string.sub(waiter, 1, 32)
    if token == me or redis.call('PUBLISH', string.sub(waiter, 33), token) > 0 then
      return token
    end
  end
end
