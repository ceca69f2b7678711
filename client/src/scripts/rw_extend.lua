-- Lengthens a reader's or the writer's lease; never shortens it and never creates one.
-- KEYS: writer, readers
-- ARGV: token, TTL ms, mode
-- Result: 1 extended, 0 it is gone, -1 another writes
if ARGV[3] == 'r' then return prolong(KEYS[2], ARGV[1], now_ms(), tonumber(ARGV[2])) end
if not is_writer(KEYS[1], ARGV[1]) then return -redis.call('EXISTS', KEYS[1]) end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
