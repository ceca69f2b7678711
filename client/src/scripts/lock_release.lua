-- Gives the lock up if it is the caller's, hands it to the longest waiting client, and takes the
-- caller out of the queue if it stands there.
-- KEYS: lock, queue, fence counter
-- ARGV: token, address at which the caller waits ('' = it does not), turn kept ms, fence kept ms,
--       channel on which a new holder is announced, if it is to be
-- Result: 1 released, 0 it was gone already, -1 another holds it
local value = redis.call('GET', KEYS[1])
if ARGV[2] ~= '' then redis.call('LREM', KEYS[2], 0, ARGV[1] .. ARGV[2]) end
if value and string.sub(value, 1, 32) ~= ARGV[1] then return -1 end
local heir = hand_over(KEYS[1], KEYS[2], KEYS[3], ARGV[3], ARGV[4], '')
if value and not heir then redis.call('DEL', KEYS[1]) end
if ARGV[5] and (value or heir) then redis.call('PUBLISH', ARGV[5], '') end
return value and 1 or 0
