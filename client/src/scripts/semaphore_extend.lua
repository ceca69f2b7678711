-- Lengthens a permit; never shortens it and never creates one.
-- KEYS: permits
-- ARGV: token, TTL ms
-- Result: 1 extended, 0 the permit is gone
return prolong(KEYS[1], ARGV[1], now_ms(), tonumber(ARGV[2]))
