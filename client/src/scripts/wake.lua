-- A waiter's address: `p`, or `s` for a sharded channel, the channel's length, a blank, for how many
-- ms it wants to hold (0 = it must ask by itself), a blank, the channel, its label.
local function read_address(address)
  local verb, length, ttl, at = string.match(address, '^([ps])(%d+) (%d+) ()')
  if not verb then return end
  local past = at + tonumber(length)
  local channel, label = string.sub(address, at, past - 1), string.sub(address, past)
  return verb == 's' and 'SPUBLISH' or 'PUBLISH', channel, tonumber(ttl), label
end

-- Tells a waiter something; 0 when nobody listens, which means that it has died.
local function wake(address, message)
  local publish, channel = read_address(address)
  return publish and redis.call(publish, channel, message) or 0
end
