-- Notes that there may be a message of an id in a topic.
-- KEYS: place
-- ARGV: topic keep_ms
-- Returns: all topics that are noted for the id
-- Promise: the note stays for keep_ms at the least.
redis.call('SADD', KEYS[1], ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('SMEMBERS', KEYS[1])
