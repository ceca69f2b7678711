-- Lengthens the leases of several locks if all of them are the caller's, and none otherwise.
-- KEYS: the locks
-- ARGV: token, TTL ms
-- Result: 1 extended, 0 one of them is gone, -1 another holds one of them
for _, lock in ipairs(KEYS) do
  local value = redis.call('GET', lock)
  if not value then return 0 end
  if string.sub(value, 1, 32) ~= ARGV[1] then return -1 end
end
for _, lock in ipairs(KEYS) do
  if redis.call('PTTL', lock) < tonumber(ARGV[2]) then redis.call('PEXPIRE', lock, ARGV[2]) end
end
return 1
