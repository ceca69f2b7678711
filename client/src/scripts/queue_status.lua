-- Counts a queue's jobs; revives the dead ones first when asked to.
-- KEYS: those of a queue
-- ARGV: '1' to revive
-- Result: {ready, taken, dead, revived}
local keys, revived = queue_keys(), 0
while ARGV[1] == '1' and revived < 1000 do
  local id = redis.call('RPOP', keys.dead)
  if not id then break end
  redis.call('HDEL', keys.tries, id)
  redis.call('LPUSH', keys.ready, id)
  next_waiter(keys.waiters)
  revived = revived + 1
end
return {redis.call('LLEN', keys.ready), redis.call('ZCARD', keys.taken), redis.call('LLEN', keys.dead), revived}
