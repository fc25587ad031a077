-- Notes that a topic may have a message of an id.
-- KEYS: place
-- ARGV: topic keep_ms
-- Returns: all topics noted for the id
-- Promise: the note stays for at least keep_ms.
redis.call('SADD', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('SMEMBERS', KEYS[1])
