-- Gives a worker more time for its job.
-- KEYS: those of a queue
-- ARGV: token, time ms
-- Result: 1 extended, 0 the job is not the worker's any more
local keys, now = queue_keys(), now_ms()
local ends = tonumber(redis.call('ZSCORE', keys.taken, ARGV[1]) or 0)
if ends <= now then return 0 end
redis.call('ZADD', keys.taken, whole(math.max(ends, now + tonumber(ARGV[2]))), ARGV[1])
return 1
