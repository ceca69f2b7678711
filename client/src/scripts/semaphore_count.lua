-- Counts the permits that have not ended.
-- KEYS: permits
-- Result: how many
return redis.call('ZCOUNT', KEYS[1], '(' .. whole(now_ms()), '+inf')
