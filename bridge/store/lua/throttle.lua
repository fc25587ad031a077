-- Takes one unit of a fixed window's limit, if there is one left; the first unit opens the window.
-- KEYS: window
-- ARGV: limit length_ms
--       limit: at least 1.
-- Returns: the end of the window in Unix ms, which identifies the window; 0: no unit is left
-- Promise: a refusal takes nothing. Every window ends.
local taken = redis.call('GET', KEYS[1])
if not taken then
  redis.call('SET', KEYS[1], 1, 'PX', ARGV[2])
elseif tonumber(taken) >= tonumber(ARGV[1]) then
  return 0
else
  redis.call('INCR', KEYS[1])
end
return redis.call('PEXPIRETIME', KEYS[1])
