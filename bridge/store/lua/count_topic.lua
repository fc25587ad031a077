-- Gives a topic that a token is about to make one of the token's places, if there is one left.
-- KEYS: topics made
-- ARGV: topic limit most hold_ms keep_ms
--       most: the most places that any token may have.
--       hold_ms: for how long a place waits for its topic to be listed.
--       keep_ms: for how long the places of a token that is not used are kept.
-- Returns: 0 where the topic may be used: it is listed, or has a place; else the number of places taken
-- Promise: a refusal takes no place. A place ends when its topic is off the list, or is not listed in time.
redis.call('PEXPIRE', KEYS[2], ARGV[5])
if redis.call('SISMEMBER', KEYS[1], ARGV[1]) == 1 then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A score is the moment until which a place waits, and 0 once its topic has been listed.
for _, topic in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], 0, now, 'LIMIT', 0, ARGV[3])) do
  if redis.call('SISMEMBER', KEYS[1], topic) == 0 then redis.call('ZREM', KEYS[2], topic) end
end
local taken = redis.call('ZCARD', KEYS[2])
if taken >= tonumber(ARGV[2]) and not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return taken end
redis.call('ZADD', KEYS[2], now + ARGV[4], ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[5])
return 0
