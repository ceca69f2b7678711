-- Grants a permit, confirms one that was kept for the caller, or lets the caller queue.
-- KEYS: permits, fence counter, queue
-- ARGV: token, TTL ms, channel ('' = do not queue), label, fence kept ms, turn kept ms, queue kept ms, limit
-- Result: {1, fence} when granted; {0, ms until the next permit ends, place in the queue or 0}
local token, channel, limit, now = ARGV[1], ARGV[3], tonumber(ARGV[8]), now_ms()
admit(KEYS[1], KEYS[3], limit, now, tonumber(ARGV[6]), token)
if not redis.call('ZSCORE', KEYS[1], token) and redis.call('ZCARD', KEYS[1]) >= limit then
  local place, next_end = 0, redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
  if channel ~= '' then place = enqueue(KEYS[3], token .. channel, ARGV[7]) end
  return {0, tonumber(next_end) - now, place}
end
hold(KEYS[1], token, now + tonumber(ARGV[2]))
return {1, next_fence(KEYS[2], ARGV[5])}
