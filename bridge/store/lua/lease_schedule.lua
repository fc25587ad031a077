-- Leases one schedule to the caller, whether there is such a schedule or not.
-- KEYS: schedule_leases
-- ARGV: name lease_ms
-- Returns: { the moment in Unix ms, the end of the lease in Unix ms }; { the moment, 0 } where another caller has the
--       lease
-- Promise: as in take_schedules.lua.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = now + ARGV[2]
local held = tonumber(redis.call('HGET', KEYS[1], ARGV[1]) or 0)
if held > now and held <= ends then return { now, 0 } end
redis.call('HSET', KEYS[1], ARGV[1], ends)
return { now, ends }
