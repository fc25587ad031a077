-- Leases schedules that are to be planned now to the caller.
-- KEYS: schedules schedule_wakes schedule_leases schedule_clock
-- ARGV: most lease_ms
-- Returns: { the moment in Unix ms, the end of the leases in Unix ms, the name of each schedule, … }
-- Promise: nobody else gets a schedule before its lease ends. No two leases of a schedule end at the same moment. If the
-- caller dies, the schedule is to be planned again at the end of its lease. If the clock was set back, all schedules are
-- to be planned now: a clock that was ahead may have put them off.
local step_ms, noted_ms = 1000, 10000
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local latest = tonumber(redis.call('GET', KEYS[4]) or 0)
if latest > now + step_ms then
  -- No more schedules are kept.
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'LIMIT', 0, 1000)) do
    redis.call('ZADD', KEYS[2], now, name)
  end
end
-- Most calls write nothing.
if math.abs(now - latest) > noted_ms or latest > now + step_ms then redis.call('SET', KEYS[4], now) end
local ends = now + ARGV[2]
local taken = { now, ends }
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local held = tonumber(redis.call('HGET', KEYS[3], name) or 0)
  -- A clock that was set back must not leave a lease that lasts for hours.
  if held <= now or held > ends then
    redis.call('HSET', KEYS[3], name, ends)
    held = ends
    taken[#taken + 1] = name
  end
  redis.call('ZADD', KEYS[2], held, name)
end
return taken
