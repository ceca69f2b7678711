-- Grants the lock, confirms a turn that was kept for the caller, or lets the caller queue.
-- The same token may ask again: after a lost reply it gets the lock it already has.
-- KEYS: lock, fence counter, queue
-- ARGV: token, TTL ms, channel to be woken on ('' = do not queue), label, fence kept ms, turn kept ms, queue kept ms
-- Result: {1, fence} when granted; {0, holder's remaining ms, place in the queue or 0} when held
local token, channel = ARGV[1], ARGV[3]
local value = redis.call('GET', KEYS[1])
if not value then
  local heir = next_waiter(KEYS[3], token)
  if heir and heir ~= token then
    value = heir .. ' 0 0 '
    redis.call('SET', KEYS[1], value, 'PX', ARGV[6])
  end
end
if value and string.sub(value, 1, 32) ~= token then
  local place = 0
  if channel ~= '' then place = enqueue(KEYS[3], token .. channel, ARGV[7]) end
  return {0, redis.call('PTTL', KEYS[1]), place}
end
local fence = next_fence(KEYS[2], ARGV[5])
local now = redis.call('TIME')
local since = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
value = token .. ' ' .. string.format('%.0f', fence) .. ' ' .. since .. ' ' .. ARGV[4]
redis.call('SET', KEYS[1], value, 'PX', ARGV[2])
return {1, fence}
