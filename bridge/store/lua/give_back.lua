-- Returns one unit to the window it was taken from.
-- KEYS: window
-- ARGV: ends_ms
--       ends_ms: identifies the window; `throttle` returned it.
-- Returns: 1, or 0 where that window has ended
-- Promise: a later window does not change.
if redis.call('PEXPIRETIME', KEYS[1]) ~= tonumber(ARGV[1]) then return 0 end
redis.call('DECR', KEYS[1])
return 1
