-- Takes a lock from whoever holds it and hands it to the next waiter.
-- KEYS: lock, queue, fence counter
-- ARGV: turn kept ms, fence kept ms
-- Result: 1 it was held, 0 it was not
local held = redis.call('DEL', KEYS[1])
hand_over(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2], '')
return held
