-- Reserves ids for tasks.
-- KEYS: task_id
-- ARGV: count
-- Returns: the first of so many ids in a row, below 2^53
-- Promise: no id is given twice. The next is at least the milliseconds since 2024 times 4096, so none is given again
-- after Redis has lost its data either, unless more than 4 million a second were given, or its clock was set back.
local time = redis.call('TIME')
local since_2024 = time[1] * 1000 + math.floor(time[2] / 1000) - 1704067200000
local first = math.max(since_2024 * 4096, tonumber(redis.call('GET', KEYS[1]) or '0'))
redis.call('SET', KEYS[1], string.format('%.0f', first + tonumber(ARGV[1])))
return first
