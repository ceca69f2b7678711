-- Grants several locks at once or none of them; while it waits it holds none.
-- KEYS: lock, fence counter, queue; again for each lock
-- ARGV: token, TTL ms, address ('' = do not queue), label, fence kept ms, turn kept ms, queue kept ms
-- Result: {1, fence} when granted; {0, longest remaining ms of the holders, place in a queue or 0}
local token, address = ARGV[1], ARGV[3]

local blocking, left = nil, -1
for i = 1, #KEYS, 3 do
  local value = redis.call('GET', KEYS[i])
  local holder = value and string.sub(value, 1, 32)
    or hand_over(KEYS[i], KEYS[i + 2], KEYS[i + 1], ARGV[6], ARGV[5], token)
  if holder and holder ~= token then
    blocking = blocking or i
    left = math.max(left, redis.call('PTTL', KEYS[i]))
  end
end
if blocking then
  for i = 1, #KEYS, 3 do
    local value = redis.call('GET', KEYS[i])
    if value and string.sub(value, 1, 32) == token then
      local heir = hand_over(KEYS[i], KEYS[i + 2], KEYS[i + 1], ARGV[6], ARGV[5], '')
      if not heir then redis.call('DEL', KEYS[i]) end
    end
  end
  local place = 0
  if address ~= '' then place = enqueue(KEYS[blocking + 2], token .. address, ARGV[7]) end
  return {0, left, place}
end

local fence, us = 0, 0
for i = 2, #KEYS, 3 do
  local number
  number, us = next_fence(KEYS[i], ARGV[5])
  fence = math.max(fence, number)
end
local value = held_value(token, fence, us, ARGV[4])
for i = 1, #KEYS, 3 do
  redis.call('SET', KEYS[i], value, 'PX', ARGV[2])
  redis.call('SET', KEYS[i + 1], string.format('%.0f', fence), 'PX', ARGV[5])
  if address ~= '' then redis.call('LREM', KEYS[i + 2], 0, token .. address) end
end
return {1, fence}
