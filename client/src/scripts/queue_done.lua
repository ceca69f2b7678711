-- Ends a job for good, or puts it off.
-- KEYS: those of a queue
-- ARGV: token, put off by ms ('' = it is done)
-- Result: 1 done, 0 the job is not the worker's any more
local keys = queue_keys()
local id = redis.call('HGET', keys.holders, ARGV[1])
if not id then return 0 end
if ARGV[2] ~= '' then
  redis.call('ZADD', keys.taken, whole(now_ms() + tonumber(ARGV[2])), ARGV[1])
  return 1
end
redis.call('HDEL', keys.holders, ARGV[1])
redis.call('ZREM', keys.taken, ARGV[1])
redis.call('HDEL', keys.tries, id)
redis.call('HDEL', keys.jobs, id)
return 1
