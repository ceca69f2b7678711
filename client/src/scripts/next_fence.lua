-- Issues a number above every earlier one for this name. It follows the server's clock in
-- microseconds, so it rises even when the counter was lost to a fail-over, a flush or its own expiry.
-- Returns it and that clock.
local function next_fence(counter, keep_ms)
  local now = redis.call('TIME')
  local us = now[1] * 1000000 + now[2]
  local fence = math.max(us, (tonumber(redis.call('GET', counter)) or 0) + 1)
  redis.call('SET', counter, string.format('%d', fence), 'PX', keep_ms)
  return fence, us
end

-- What a key says of its holder: token, number, since when (ms), label.
local function held_value(token, fence, us, label)
  return string.format('%s %d %d ', token, fence, us / 1000) .. label
end

-- What a waiter must know to judge a later offer: the server's clock, and the number issued last.
local function present(counter)
  local now = redis.call('TIME')
  return now[1] * 1000000 + now[2], tonumber(redis.call('GET', counter)) or 0
end
