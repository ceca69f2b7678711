-- Gives up those of several locks that are the caller's, and its places in their queues.
-- KEYS: lock, queue, fence counter; again for each lock
-- ARGV: token, address at which the caller waits ('' = it does not), turn kept ms, fence kept ms
-- Result: 1 all were released, 0 one was gone already, -1 another holds one
local result = 1
for i = 1, #KEYS, 3 do
  local value = redis.call('GET', KEYS[i])
  if ARGV[2] ~= '' then redis.call('LREM', KEYS[i + 1], 0, ARGV[1] .. ARGV[2]) end
  if value and string.sub(value, 1, 32) ~= ARGV[1] then
    result = -1
  else
    if not value then result = math.min(result, 0) end
    local heir = hand_over(KEYS[i], KEYS[i + 1], KEYS[i + 2], ARGV[3], ARGV[4], '')
    if value and not heir then redis.call('DEL', KEYS[i]) end
  end
end
return result
