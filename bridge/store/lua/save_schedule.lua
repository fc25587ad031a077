-- Saves a schedule under a lease, and may end the lease.
-- KEYS: schedules schedule_wakes schedule_leases schedule
-- ARGV: name until_ms most wake_ms spec message state leave
--       until_ms: the end of the lease, which identifies the lease. most: the schedules that are kept. wake_ms: when to
--       plan it next; '': never. spec, message: JSON; '' leaves them as they are. state: JSON. leave '1': ends the
--       lease.
-- Returns: saved | lost (another caller has the lease) | full (there are as many schedules as most)
-- Promise: a caller whose lease another caller has taken changes nothing.
if redis.call('HGET', KEYS[3], ARGV[1]) ~= ARGV[2] then return 'lost' end
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 'full' end
  redis.call('ZADD', KEYS[1], 0, ARGV[1])
end
redis.call('HSET', KEYS[4], 'state', ARGV[7])
if ARGV[5] ~= '' then redis.call('HSET', KEYS[4], 'spec', ARGV[5], 'message', ARGV[6]) end
if ARGV[4] == '' then
  redis.call('ZREM', KEYS[2], ARGV[1])
else
  redis.call('ZADD', KEYS[2], ARGV[4], ARGV[1])
end
if ARGV[8] == '1' then redis.call('HDEL', KEYS[3], ARGV[1]) end
return 'saved'
