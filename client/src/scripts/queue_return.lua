-- Gives a job back undone, and the caller's place among those who wait.
-- KEYS: those of a queue
-- ARGV: token, address at which the caller waits ('' = it does not), turn kept ms, fence kept ms, most tries
-- Result: 1 given back, 0 the job is not the worker's any more
local keys = queue_keys()
if ARGV[2] ~= '' then
  local stood = redis.call('LREM', keys.waiters, 0, ARGV[1] .. ARGV[2])
  -- It was woken for a job and leaves without it, so somebody else must look.
  if stood == 0 and redis.call('LLEN', keys.ready) > 0 then next_waiter(keys.waiters) end
end
if redis.call('HEXISTS', keys.holders, ARGV[1]) == 0 then return 0 end
give_back(keys, ARGV[1], tonumber(ARGV[5]))
return 1
