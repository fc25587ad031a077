-- Ends a try of a request with an idempotency key: keeps its answer, or lets the next try begin.
-- KEYS: answers begun
-- ARGV: id holder answer forgets most_bytes
--       answer '': nothing is kept, so the next try does the work. forgets '1': also frees the key for any request.
-- Returns: 1; 0 if another try holds the key by now, or the key is forgotten
-- Promise: an answer does not change. All answers have at most most_bytes together: the oldest keys go first.
local stored = redis.call('HGET', KEYS[1], ARGV[1])
if not stored then return 0 end
local fingerprint, _, holder, kept = cmsgpack.unpack(stored)
if holder ~= ARGV[2] or kept ~= '' then return 0 end

local function forget(id)
  redis.call('HINCRBY', KEYS[1], 'bytes', -redis.call('HSTRLEN', KEYS[1], id))
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end

if ARGV[4] == '1' then
  forget(ARGV[1])
  return 1
end
local value = cmsgpack.pack(fingerprint, 0, '', ARGV[3])
local bytes = redis.call('HINCRBY', KEYS[1], 'bytes', #value - #stored)
redis.call('HSET', KEYS[1], ARGV[1], value)
while bytes > tonumber(ARGV[5]) do
  local oldest = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '+inf', 'LIMIT', 0, 1)[1]
  if not oldest then break end
  forget(oldest)
  bytes = tonumber(redis.call('HGET', KEYS[1], 'bytes'))
end
return 1
