-- Makes a counter at least as high as what the other servers of a quorum issued.
-- KEYS: fence counter
-- ARGV: number, kept ms
-- Result: 1
if (tonumber(redis.call('GET', KEYS[1])) or 0) < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
return 1
