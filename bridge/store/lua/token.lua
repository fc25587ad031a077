-- Stores a token, or removes one.
-- KEYS: tokens
-- ARGV: id token version
--       token: JSON; '': remove it.
-- Returns: 1, or 0 where there was no token to remove
-- Promise: every change sets the version, so a process that compares versions misses none.
local done = 1
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
else
  done = redis.call('HDEL', KEYS[1], ARGV[1])
end
if done == 1 then redis.call('HSET', KEYS[1], 'version', ARGV[3]) end
return done
