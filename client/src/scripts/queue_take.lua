-- Takes the oldest ready job for a time, or lets the caller wait for one.
-- KEYS: those of a queue
-- ARGV: token, time ms, address ('' = do not wait), label, fence kept ms, turn kept ms, queue kept ms, most tries
-- Result: {1, fence, id, payload, which try}; {0, ms until a taken job is overdue or -1, place or 0}
local keys, token, address, now = queue_keys(), ARGV[1], ARGV[3], now_ms()
local id = redis.call('HGET', keys.holders, token)
if not id then
  give_back_overdue(keys, now, tonumber(ARGV[8]))
  id = redis.call('RPOP', keys.ready)
  if id then redis.call('HINCRBY', keys.tries, id, 1) end
end
if not id then
  local place, left = 0, -1
  local first = redis.call('ZRANGE', keys.taken, 0, 0, 'WITHSCORES')[2]
  if first then left = math.max(tonumber(first) - now, 0) end
  if address ~= '' then place = enqueue(keys.waiters, token .. address, ARGV[7]) end
  return {0, left, place}
end
if address ~= '' then redis.call('LREM', keys.waiters, 0, token .. address) end
redis.call('HSET', keys.holders, token, id)
redis.call('ZADD', keys.taken, whole(now + tonumber(ARGV[2])), token)
local payload, tries = redis.call('HGET', keys.jobs, id), redis.call('HGET', keys.tries, id)
return {1, (next_fence(keys.fence, ARGV[5])), id, payload, tonumber(tries)}
