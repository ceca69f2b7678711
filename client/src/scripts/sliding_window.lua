-- Counts a request among those of the last window's length, each remembered for exactly that long.
-- KEYS: log (sorted set of requests by the server's ms), sequence
-- ARGV: limit, window ms, cost
-- Result: {1 allowed or 0, how many are left, ms until enough of them are forgotten}
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', whole(now - window))
local used = redis.call('ZCARD', KEYS[1])
if used + cost > limit then
  local wait = window
  local enough = redis.call('ZRANGE', KEYS[1], used + cost - limit - 1, used + cost - limit - 1, 'WITHSCORES')
  if enough[2] then wait = tonumber(enough[2]) + window - now end
  return {0, math.max(limit - used, 0), wait}
end
for _ = 1, cost do
  redis.call('ZADD', KEYS[1], whole(now), redis.call('INCR', KEYS[2]))
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return {1, limit - used - cost, 0}
