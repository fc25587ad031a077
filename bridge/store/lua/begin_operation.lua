-- Keeps a new bulk operation, which waits for a worker.
-- KEYS: operations operation_leases operation
-- ARGV: id asked matched most most_running
--       asked: what is to be done, JSON. matched: how many messages. most: the most operations that are kept.
-- Returns: the moment in Unix ms; 0 where most_running operations run
-- Promise: a new operation beyond most removes the oldest operation that has ended, never a running one.
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[5]) then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[3], 'asked', ARGV[2], 'matched', ARGV[3], 'state', 'running', 'created_ms', now)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
if redis.call('ZCARD', KEYS[1]) <= tonumber(ARGV[4]) then return now end
-- At most most_running operations run, so of one more than that, one has ended.
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', '+inf', 'LIMIT', 0, ARGV[5] + 1)) do
  if not redis.call('ZSCORE', KEYS[2], id) then
    redis.call('ZREM', KEYS[1], id)
    redis.call('DEL', KEYS[1] .. '/' .. id)
    break
  end
end
return now
