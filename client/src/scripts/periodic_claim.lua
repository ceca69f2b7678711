-- Claims the present period for the caller unless somebody has it.
-- KEYS: last claimed period
-- ARGV: token, period ms, offset ms, label
-- Result: {1, period's number, ms until the next one} for the caller; {0, …} when it was claimed
local now = redis.call('TIME')
local ms = now[1] * 1000 + math.floor(now[2] / 1000) - tonumber(ARGV[3])
local length = tonumber(ARGV[2])
local number = math.floor(ms / length)
local left = (number + 1) * length - ms
local last = redis.call('GET', KEYS[1])
if last then
  local claimed, by = string.match(last, '^(%-?%d+) (%x+)')
  if claimed and tonumber(claimed) >= number then
    return {(by == ARGV[1] and tonumber(claimed) == number) and 1 or 0, number, left}
  end
end
local value = string.format('%.0f', number) .. ' ' .. ARGV[1] .. ' ' .. ARGV[4]
-- Kept one period longer, so that a clock that is set back a little grants no second run.
redis.call('SET', KEYS[1], value, 'PX', string.format('%.0f', left + length))
return {1, number, left}
