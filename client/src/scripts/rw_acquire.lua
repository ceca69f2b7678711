-- Grants shared or exclusive access, confirms what was kept, or lets the caller queue.
-- KEYS: writer, fence counter, queue, readers
-- ARGV: token, TTL ms, address ('' = do not queue), label, fence kept ms, turn kept ms, queue kept ms,
--       mode ('r' or 'w'), whether readers let waiting writers go first ('1' or '0')
-- Result: {1, fence} when granted;
--         {0, ms until the present holders' leases end, place in the queue or 0, server's µs, fence issued last}
local token, address, mode, now = ARGV[1], ARGV[3], ARGV[8], now_ms()
admit(KEYS[1], KEYS[4], KEYS[3], now, ARGV[6], token, KEYS[2], ARGV[5])
local written = redis.call('GET', KEYS[1])
local queued = redis.call('LLEN', KEYS[3]) > 0
local granted
if mode == 'w' then
  granted = is_writer(KEYS[1], token)
    or not (written or queued or redis.call('ZCARD', KEYS[4]) > 0)
else
  granted = redis.call('ZSCORE', KEYS[4], token)
    or not (written or (queued and ARGV[9] == '1'))
end
if not granted then
  local place, left = 0, redis.call('PTTL', KEYS[1])
  if not written then left = redis.call('PTTL', KEYS[4]) end
  if address ~= '' then place = enqueue(KEYS[3], token .. mode .. address, ARGV[7]) end
  return {0, left, place, present(KEYS[2])}
end
local fence, us = next_fence(KEYS[2], ARGV[5])
if mode == 'w' then
  redis.call('SET', KEYS[1], held_value(token, fence, us, ARGV[4]), 'PX', ARGV[2])
else
  hold(KEYS[4], token, now + tonumber(ARGV[2]))
end
return {1, fence}
