-- Removes a schedule under a lease, and ends the lease.
-- KEYS: schedules schedule_wakes schedule_leases schedule
-- ARGV: name until_ms
--       until_ms: the end of the lease, which identifies the lease.
-- Returns: 1; 0 where another caller has the lease
-- Promise: a caller whose lease another caller has taken changes nothing.
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[4])
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return 1
