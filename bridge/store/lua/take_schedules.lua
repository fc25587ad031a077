-- Leases schedules that are to be planned now to the caller.
-- KEYS: schedule_wakes schedule_leases
-- ARGV: most lease_ms
-- Returns: { the moment in Unix ms, the end of the leases in Unix ms, the name of each schedule, … }
-- Promise: nobody else gets a schedule before its lease ends. No two leases of a schedule end at the same moment. If the
-- caller dies, the schedule is to be planned again at the end of its lease.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = now + ARGV[2]
local taken = { now, ends }
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])) do
  local held = tonumber(redis.call('HGET', KEYS[2], name) or 0)
  -- A clock that was set back must not leave a lease that lasts for hours.
  if held <= now or held > ends then
    redis.call('HSET', KEYS[2], name, ends)
    held = ends
    taken[#taken + 1] = name
  end
  redis.call('ZADD', KEYS[1], held, name)
end
return taken
