-- Writes a value unless a holder with a higher fencing token has written before.
-- KEYS: value, highest token seen
-- ARGV: fencing token, value
-- Result: 1 written, 0 refused
local seen = tonumber(redis.call('GET', KEYS[2]) or 0)
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('SET', KEYS[2], ARGV[1])
redis.call('SET', KEYS[1], ARGV[2])
return 1
