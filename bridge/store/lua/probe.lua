-- Makes the kinds of writes that the scripts of a send make, to see whether Redis takes them now.
-- KEYS: probe set
-- ARGV: ends_ms
-- Returns: the moment of the probe in Unix seconds
-- Promise: nothing reads the keys. `probe` expires after ends_ms, and the script removes `set` at once.
local now = redis.call('TIME')
redis.call('SET', KEYS[1], redis.call('GET', KEYS[1]) and 1 or 0, 'PX', ARGV[1])
redis.call('ZADD', KEYS[2], now[1], 'probe')
redis.call('ZREM', KEYS[2], 'probe')
return tonumber(now[1])
