-- Extends a worker's lease of an operation while the worker changes a portion.
-- KEYS: operation_leases
-- ARGV: id until_ms lease_ms
--       until_ms: the end of the worker's lease, which identifies the lease.
-- Returns: the end of the extended lease in Unix ms; -1 where another worker has taken the operation over
-- Promise: an operation that was cancelled meanwhile stays so, and its worker can save the counts of the portion.
if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or -1) ~= tonumber(ARGV[2]) then return -1 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = math.max(now + ARGV[3], ARGV[2] + 1)
redis.call('ZADD', KEYS[1], ends, ARGV[1])
return ends
