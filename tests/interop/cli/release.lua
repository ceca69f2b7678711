-- Deletes the lock KEYS[1] only while it carries the token ARGV[1]; answers how many keys went.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
