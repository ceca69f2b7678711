-- Holds of a set with an end each: a sorted set of tokens scored by the server's milliseconds.

local function now_ms()
  local now = redis.call('TIME')
  return now[1] * 1000 + math.floor(now[2] / 1000)
end

local function whole(number) return string.format('%.0f', number) end

-- Grants a hold until a moment; the set as a whole lives as long as its last hold.
local function hold(set, token, until_ms)
  redis.call('ZADD', set, whole(until_ms), token)
  local last = redis.call('ZRANGE', set, -1, -1, 'WITHSCORES')
  redis.call('PEXPIREAT', set, whole(tonumber(last[2])))
end

local function drop_expired(set, now)
  redis.call('ZREMRANGEBYSCORE', set, '-inf', whole(now))
end

-- Lengthens a hold that has not ended; 1 if there was one.
local function prolong(set, token, now, ttl_ms)
  local ends = tonumber(redis.call('ZSCORE', set, token) or 0)
  if ends <= now then return 0 end
  hold(set, token, math.max(ends, now + ttl_ms))
  return 1
end
