-- Moves jobs whose worker let its time pass back to the ready ones, oldest first, or to the dead
-- ones when they were tried often enough; wakes a waiter for each. Bounded per call.
-- A job is its id; its worker is a token, which names the job while it has it.
local function give_back(keys, token, max_tries)
  local id = redis.call('HGET', keys.holders, token)
  redis.call('HDEL', keys.holders, token)
  redis.call('ZREM', keys.taken, token)
  if not id then return end
  if tonumber(redis.call('HGET', keys.tries, id) or 0) >= max_tries then
    redis.call('LPUSH', keys.dead, id)
  else
    redis.call('RPUSH', keys.ready, id)
    next_waiter(keys.waiters)
  end
end

local function give_back_overdue(keys, now, max_tries)
  local overdue = redis.call('ZRANGEBYSCORE', keys.taken, '-inf', whole(now), 'LIMIT', 0, 100)
  for _, token in ipairs(overdue) do give_back(keys, token, max_tries) end
end

local function queue_keys()
  return {
    ready = KEYS[1], jobs = KEYS[2], taken = KEYS[3], holders = KEYS[4],
    tries = KEYS[5], dead = KEYS[6], waiters = KEYS[7], fence = KEYS[8],
  }
end
