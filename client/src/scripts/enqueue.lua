-- Puts a waiter at the end of the queue unless it already stands in it; returns its place from 1.
-- The queue outlives its waiters by a bounded time only, since each of them returns within it.
local function enqueue(queue, waiter, keep_ms)
  local place = redis.call('LPOS', queue, waiter)
  place = place and place + 1 or redis.call('RPUSH', queue, waiter)
  redis.call('PEXPIRE', queue, keep_ms)
  return place
end
