-- Removes a schedule under a lease, which it ends.
-- KEYS: schedules schedule_wakes schedule_leases schedule
-- ARGV: name until_ms
--       until_ms: the end of the lease, which names it.
-- Returns: 1; 0 where the lease is another one's
-- Promise: one whose lease another one has taken changes nothing.
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[4])
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[3], ARGV[1])
return 1
