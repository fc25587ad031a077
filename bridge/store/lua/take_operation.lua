-- Leases a running operation that no worker has to the caller.
-- KEYS: operation_leases operations
-- ARGV: lease_ms
-- Returns: { id, the end of the lease in Unix ms, how often it was leased since its work was saved last }, or false where
--       there is none
-- Promise: nobody else gets the operation before the lease ends. No two leases of one operation end at the same moment.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local id = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 1)[1]
if not id then return false end
redis.call('ZADD', KEYS[1], now + ARGV[1], id)
return { id, now + ARGV[1], redis.call('HINCRBY', KEYS[2] .. '/' .. id, 'tries', 1) }
