-- A latch's commands: it counts down to zero, then opens for all who wait.
-- KEYS: count, queue
-- ARGV: verb, and for 'set': count, kept ms; for 'down': by how much; for 'wait': waiter, queue kept ms;
--       for 'leave': waiter
-- Result: 'set' 1 or 0 if it is set already; 'down' what is left or -1 if it is not set;
--         'wait' what is left or -1 if it is not set
local verb = ARGV[1]
if verb == 'set' then
  return redis.call('SET', KEYS[1], ARGV[2], 'NX', 'PX', ARGV[3]) and 1 or 0
end
if verb == 'leave' then return redis.call('LREM', KEYS[2], 0, ARGV[2]) end
local left = tonumber(redis.call('GET', KEYS[1]))
if verb == 'down' and left then
  left = math.max(left - tonumber(ARGV[2]), 0)
  redis.call('SET', KEYS[1], string.format('%.0f', left), 'KEEPTTL')
  -- Bounded, so that one script stays short; those beyond look for themselves soon.
  for _ = 1, left == 0 and 10000 or 0 do
    local waiter = redis.call('LPOP', KEYS[2])
    if not waiter then break end
    wake(string.sub(waiter, 33), string.sub(waiter, 1, 32))
  end
end
if verb == 'wait' and left ~= 0 and ARGV[2] ~= '' then enqueue(KEYS[2], ARGV[2], ARGV[3]) end
return left or -1
