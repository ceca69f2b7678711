-- Gives free permits to those who wait for them, in their order.
local function admit(permits, queue, limit, now, turn_ms, me)
  drop_expired(permits, now)
  while redis.call('ZCARD', permits) < limit do
    local heir = next_waiter(queue, me)
    if not heir then return end
    hold(permits, heir, now + turn_ms)
  end
end
