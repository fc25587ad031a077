-- Cancels an operation that runs.
-- KEYS: operation_leases operation
-- ARGV: id
-- Returns: 1, also where it has ended before; 0 where there is no such operation
-- Promise: its worker begins no further portion. Without a worker it has ended now.
local state = redis.call('HGET', KEYS[2], 'state')
if not state then return 0 end
if state ~= 'running' then return 1 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[2], 'state', 'cancelled', 'ended_ms', now)
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or 0) <= now then
  redis.call('HDEL', KEYS[2], 'work')
  redis.call('ZREM', KEYS[1], ARGV[1])
end
return 1
