-- Grants a permit, confirms one that was kept for the caller, or lets the caller queue.
-- KEYS: permits, fence counter, queue
-- ARGV: token, TTL ms, address ('' = do not queue), label, fence kept ms, turn kept ms, queue kept ms, limit
-- Result: {1, fence} when granted;
--         {0, ms until the next permit ends, place in the queue or 0, server's µs, fence issued last}
local token, address, limit, now = ARGV[1], ARGV[3], tonumber(ARGV[8]), now_ms()
admit(KEYS[1], KEYS[3], limit, now, ARGV[6], token, KEYS[2], ARGV[5])
if not redis.call('ZSCORE', KEYS[1], token) and redis.call('ZCARD', KEYS[1]) >= limit then
  local place, next_end = 0, redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
  if address ~= '' then place = enqueue(KEYS[3], token .. address, ARGV[7]) end
  return {0, tonumber(next_end) - now, place, present(KEYS[2])}
end
hold(KEYS[1], token, now + tonumber(ARGV[2]))
return {1, (next_fence(KEYS[2], ARGV[5]))}
