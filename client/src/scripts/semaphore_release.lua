-- Gives a permit up, and the caller's place in the queue; those who wait are let in.
-- KEYS: permits, queue, fence counter
-- ARGV: token, address at which the caller waits ('' = it does not), turn kept ms, fence kept ms, limit
-- Result: 1 released, 0 it was gone already
local now = now_ms()
drop_expired(KEYS[1], now)
local had = redis.call('ZREM', KEYS[1], ARGV[1])
if ARGV[2] ~= '' then redis.call('LREM', KEYS[2], 0, ARGV[1] .. ARGV[2]) end
admit(KEYS[1], KEYS[2], tonumber(ARGV[5]), now, ARGV[3], '', KEYS[3], ARGV[4])
return had
