-- Grants the lock, confirms what was kept for the caller, or lets the caller queue.
-- The same token may ask again: after a lost reply it gets the lock it already has.
-- KEYS: lock, fence counter, queue
-- ARGV: token, TTL ms, address ('' = do not queue), label, fence kept ms, turn kept ms, queue kept ms,
--       channel on which a new holder is announced, if it is to be
-- Result: {1, fence} when granted;
--         {0, holder's remaining ms, place in the queue or 0, server's µs, fence issued last} when held
local token, address = ARGV[1], ARGV[3]
local value = redis.call('GET', KEYS[1])
local holder = value and string.sub(value, 1, 32) or hand_over(KEYS[1], KEYS[3], KEYS[2], ARGV[6], ARGV[5], token)
if not value and ARGV[8] then redis.call('PUBLISH', ARGV[8], '') end
if holder and holder ~= token then
  local place = 0
  if address ~= '' then place = enqueue(KEYS[3], token .. address, ARGV[7]) end
  return {0, redis.call('PTTL', KEYS[1]), place, present(KEYS[2])}
end
local fence, us = next_fence(KEYS[2], ARGV[5])
redis.call('SET', KEYS[1], held_value(token, fence, us, ARGV[4]), 'PX', ARGV[2])
return {1, fence}
