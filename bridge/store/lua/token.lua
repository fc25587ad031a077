-- Keeps a token, or removes one.
-- KEYS: tokens
-- ARGV: id token version
--       token: as JSON, '': it is removed.
-- Returns: 1, or 0 where there was none to remove
-- Promise: every change comes with its version, so none is overlooked by a process that compares versions.
local done = 1
if ARGV[2] ~= '' then
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
else
  done = redis.call('HDEL', KEYS[1], ARGV[1])
end
if done == 1 then redis.call('HSET', KEYS[1], 'version', ARGV[3]) end
return done
