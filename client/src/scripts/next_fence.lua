-- Issues a number above every earlier one for this name. It follows the server's clock in
-- microseconds, so it rises even when the counter was lost to a fail-over, a flush or its own expiry.
local function next_fence(counter, keep_ms)
  local now = redis.call('TIME')
  local fence = math.max(now[1] * 1000000 + now[2], (tonumber(redis.call('GET', counter)) or 0) + 1)
  redis.call('SET', counter, string.format('%.0f', fence), 'PX', keep_ms)
  return fence
end
