-- Grants several locks at once or none of them; while it waits it holds none.
-- KEYS: lock, fence counter, queue; again for each lock
-- ARGV: token, TTL ms, channel ('' = do not queue), label, fence kept ms, turn kept ms, queue kept ms
-- Result: {1, fence} when granted; {0, longest remaining ms of the holders, place in a queue or 0}
local token, channel = ARGV[1], ARGV[3]
local function is_mine(value) return value and string.sub(value, 1, 32) == token end

local blocking, left = nil, -1
for i = 1, #KEYS, 3 do
  local value = redis.call('GET', KEYS[i])
  if not value then
    local heir = next_waiter(KEYS[i + 2], token)
    if heir and heir ~= token then
      value = heir .. ' 0 0 '
      redis.call('SET', KEYS[i], value, 'PX', ARGV[6])
    end
  end
  if value and not is_mine(value) then
    blocking = blocking or i
    left = math.max(left, redis.call('PTTL', KEYS[i]))
  end
end
if blocking then
  for i = 1, #KEYS, 3 do
    if is_mine(redis.call('GET', KEYS[i])) then
      local heir = next_waiter(KEYS[i + 2], '')
      if heir then
        redis.call('SET', KEYS[i], heir .. ' 0 0 ', 'PX', ARGV[6])
      else
        redis.call('DEL', KEYS[i])
      end
    end
  end
  local place = 0
  if channel ~= '' then place = enqueue(KEYS[blocking + 2], token .. channel, ARGV[7]) end
  return {0, left, place}
end

local fence = 0
for i = 2, #KEYS, 3 do fence = math.max(fence, next_fence(KEYS[i], ARGV[5])) end
local now = redis.call('TIME')
local since = string.format('%.0f', now[1] * 1000 + math.floor(now[2] / 1000))
local digits = string.format('%.0f', fence)
for i = 1, #KEYS, 3 do
  redis.call('SET', KEYS[i], token .. ' ' .. digits .. ' ' .. since .. ' ' .. ARGV[4], 'PX', ARGV[2])
  redis.call('SET', KEYS[i + 1], digits, 'PX', ARGV[5])
  if channel ~= '' then redis.call('LREM', KEYS[i + 2], 0, token .. channel) end
end
return {1, fence}
