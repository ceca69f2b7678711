-- Gives what has become free to a waiter. One that said for how long it wants to hold is granted a
-- lease, and the message says so: `token fence µs lease`. Another's turn is kept until it asks.
-- Both end after `turn_ms` at the latest, since the waiter may hang; one that does not lengthens it.
-- Result: nil when nobody listens; else for how long, and the value of a string that is held
local function offer(token, address, turn_ms, counter, keep_ms)
  local publish, channel, ttl, label = read_address(address)
  if not publish then return end
  if ttl == 0 then
    if redis.call(publish, channel, token) > 0 then return tonumber(turn_ms), token .. ' 0 0 ' end
    return
  end
  local fence, us = next_fence(counter, keep_ms)
  local lease = math.min(ttl, tonumber(turn_ms))
  local message = string.format('%s %d %d %d', token, fence, us, lease)
  if redis.call(publish, channel, message) > 0 then return lease, held_value(token, fence, us, label) end
end
