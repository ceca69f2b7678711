-- Takes a lock from whoever holds it and passes it to the next waiter.
-- KEYS: lock, queue
-- ARGV: turn kept ms
-- Result: 1 it was held, 0 it was not
local held = redis.call('DEL', KEYS[1])
local heir = next_waiter(KEYS[2], '')
if heir then redis.call('SET', KEYS[1], heir .. ' 0 0 ', 'PX', ARGV[1]) end
return held
