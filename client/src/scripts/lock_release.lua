-- Gives the lock up if it is the caller's, keeps the next turn for the longest waiting client,
-- and takes the caller out of the queue if it stands there.
-- KEYS: lock, queue
-- ARGV: token, channel on which the caller waits ('' = it does not), turn kept ms
-- Result: 1 released, 0 it was gone already, -1 another holds it
local value = redis.call('GET', KEYS[1])
if ARGV[2] ~= '' then redis.call('LREM', KEYS[2], 0, ARGV[1] .. ARGV[2]) end
if value and string.sub(value, 1, 32) ~= ARGV[1] then return -1 end
local heir = next_waiter(KEYS[2], '')
if heir then
  redis.call('SET', KEYS[1], heir .. ' 0 0 ', 'PX', ARGV[3])
elseif value then
  redis.call('DEL', KEYS[1])
end
return value and 1 or 0
