-- Gives up a reader's or the writer's hold, and the caller's place in the queue.
-- KEYS: writer, queue, readers, fence counter
-- ARGV: token, address at which the caller waits ('' = it does not), turn kept ms, fence kept ms, mode
-- Result: 1 released, 0 it was gone already, -1 another writes
local token, mode, now = ARGV[1], ARGV[5], now_ms()
local result
if ARGV[2] ~= '' then redis.call('LREM', KEYS[2], 0, token .. mode .. ARGV[2]) end
if mode == 'r' then
  drop_expired(KEYS[3], now)
  result = redis.call('ZREM', KEYS[3], token)
elseif is_writer(KEYS[1], token) then
  result = redis.call('DEL', KEYS[1])
else
  result = -redis.call('EXISTS', KEYS[1])
end
admit(KEYS[1], KEYS[3], KEYS[2], now, ARGV[3], '', KEYS[4], ARGV[4])
return result
