-- Adds a job unless its id is there already, and wakes the longest waiting worker.
-- KEYS: those of a queue
-- ARGV: id, payload, most jobs
-- Result: 1 added, 0 it was there already, -1 the queue is full
local keys = queue_keys()
if redis.call('HEXISTS', keys.jobs, ARGV[1]) == 1 then return 0 end
if redis.call('HLEN', keys.jobs) >= tonumber(ARGV[3]) then return -1 end
redis.call('HSET', keys.jobs, ARGV[1], ARGV[2])
redis.call('LPUSH', keys.ready, ARGV[1])
next_waiter(keys.waiters)
return 1
