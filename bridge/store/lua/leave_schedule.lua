-- Ends a lease of a schedule before its time.
-- KEYS: schedule_leases
-- ARGV: name until_ms
--       until_ms: the end of the lease, which identifies the lease.
-- Returns: 1; 0 where another caller has the lease
-- Promise: the lease of another caller stays.
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
return redis.call('HDEL', KEYS[1], ARGV[1])
