-- Saves how far a worker has come with an operation, and extends its lease.
-- KEYS: operation_leases operation
-- ARGV: id until_ms lease_ms progress work ended reason
--       until_ms: the end of the worker's lease, which identifies the lease. progress: the counts, JSON.
--       work: where to go on, and the messages that are next, JSON. ended: the state at the end; '': the operation
--       goes on. reason: why it ends before it is done; '': no reason.
-- Returns: the end of the extended lease in Unix ms; 0 where the operation has ended, now or by a cancel; -1 where another
--       worker has taken it over
-- Promise: a worker whose lease another worker has taken over changes nothing. The counts are saved even if the
-- operation was cancelled.
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or -1) ~= tonumber(ARGV[2]) then return -1 end
redis.call('HSET', KEYS[2], 'progress', ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local runs = redis.call('HGET', KEYS[2], 'state') == 'running'
if runs and ARGV[6] == '' then
  -- A clock that was set back must not give this lease the end of an earlier one.
  local ends = math.max(now + ARGV[3], ARGV[2] + 1)
  redis.call('HSET', KEYS[2], 'work', ARGV[5], 'tries', 0)
  redis.call('ZADD', KEYS[1], ends, ARGV[1])
  return ends
end
if runs then redis.call('HSET', KEYS[2], 'state', ARGV[6], 'ended_ms', now, 'reason', ARGV[7]) end
redis.call('HDEL', KEYS[2], 'work')
redis.call('ZREM', KEYS[1], ARGV[1])
return 0
