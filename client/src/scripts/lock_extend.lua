-- Lengthens the holder's lease; never shortens it and never creates one.
-- KEYS: lock
-- ARGV: token, TTL ms
-- Result: 1 extended, 0 the lock is gone, -1 another holds it
local value = redis.call('GET', KEYS[1])
if not value then return 0 end
if string.sub(value, 1, 32) ~= ARGV[1] then return -1 end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
