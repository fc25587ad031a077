-- Reserves ids for tasks.
-- KEYS: task_id
-- ARGV: count
-- Returns: the first of `count` consecutive ids, below 2^53
-- Promise: no id is given twice, also after Redis has lost its data: the next id is at least the milliseconds since
-- 2024 times 4096. This fails only above 4 million ids a second, or if the clock of Redis is set back.
local time = redis.call('TIME')
local since_2024 = time[1] * 1000 + math.floor(time[2] / 1000) - 1704067200000
local first = math.max(since_2024 * 4096, tonumber(redis.call('GET', KEYS[1]) or '0'))
redis.call('SET', KEYS[1], string.format('%.0f', first + tonumber(ARGV[1])))
return first
