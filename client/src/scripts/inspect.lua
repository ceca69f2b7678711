-- Describes a lock at one moment.
-- KEYS: lock, queue
-- Result: {value or nil, remaining ms (-1 no end), waiters, server's time in ms}
local now = redis.call('TIME')
return {
  redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), redis.call('LLEN', KEYS[2]),
  now[1] * 1000 + math.floor(now[2] / 1000),
}
