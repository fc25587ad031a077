-- Begins a request with an idempotency key, or finds the state of an earlier request with this key.
-- KEYS: answers begun
--       answers: a hash: the state and the answer of each key's request, and the bytes of all. begun: the keys by the
--       moment of their first request.
-- ARGV: id fingerprint holder held_ms kept_ms most
--       id: the key. holder: who answers it, for held_ms. kept_ms: how long a key is known. most: the keys of one token.
-- Returns: {word, a moment in Unix ms, an answer or ''}; word: begun | again (an earlier try was not answered; the moment
--       is when the first one began) | answered | under_way (until that moment) | other (another request has the key)
-- Promise: at most `most` keys are kept, each for kept_ms at most. The oldest key is removed first.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept_ms = tonumber(ARGV[5])

local function forget(id)
  redis.call('HINCRBY', KEYS[1], 'bytes', -redis.call('HSTRLEN', KEYS[1], id))
  redis.call('HDEL', KEYS[1], id)
  redis.call('ZREM', KEYS[2], id)
end

local function put(id, value)
  redis.call('HINCRBY', KEYS[1], 'bytes', #value - redis.call('HSTRLEN', KEYS[1], id))
  redis.call('HSET', KEYS[1], id, value)
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now - kept_ms, 'LIMIT', 0, 16)) do forget(id) end
local began = tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0)
local stored = began > now - kept_ms and redis.call('HGET', KEYS[1], ARGV[1])
if stored then
  local fingerprint, held_until, _, kept = cmsgpack.unpack(stored)
  if fingerprint ~= ARGV[2] then return { 'other', began, '' } end
  if kept ~= '' then return { 'answered', began, kept } end
  if held_until > now then return { 'under_way', held_until, '' } end
else
  began = now
  redis.call('ZADD', KEYS[2], now, ARGV[1])
end
put(ARGV[1], cmsgpack.pack(ARGV[2], now + ARGV[4], ARGV[3], ''))
redis.call('PEXPIRE', KEYS[1], kept_ms)
redis.call('PEXPIRE', KEYS[2], kept_ms)
if redis.call('ZCARD', KEYS[2]) > tonumber(ARGV[6]) then
  forget(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '+inf', 'LIMIT', 0, 1)[1])
end
return { stored and 'again' or 'begun', began, '' }
