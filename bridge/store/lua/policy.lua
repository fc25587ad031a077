-- Replaces a topic's policy, unless another call has changed it meanwhile.
-- KEYS: policy
-- ARGV: former policy
--       former: the stored policy that the caller changed; '': there was none.
-- Returns: 1, or 0 where another policy is stored
-- Promise: of several changes to one policy, none undoes another.
if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1
