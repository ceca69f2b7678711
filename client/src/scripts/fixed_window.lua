-- Counts a request in the present window, which begins with its first request.
-- KEYS: counter
-- ARGV: limit, window ms, cost
-- Result: {1 allowed or 0, how many are left, ms until the window ends}
local limit, cost = tonumber(ARGV[1]), tonumber(ARGV[3])
local used = tonumber(redis.call('GET', KEYS[1]) or 0)
local allowed = used + cost <= limit
if allowed then
  used = redis.call('INCRBY', KEYS[1], ARGV[3])
  if used == cost then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
end
return {allowed and 1 or 0, math.max(limit - used, 0), math.max(redis.call('PTTL', KEYS[1]), 0)}
