-- Admits one request more, or says how soon one will be: a bucket that leaks evenly, which is GCRA by another name.
-- KEYS: rate
-- ARGV: now_us count interval_us burst
--       now_us: '' is Redis' time. count: admitted in each interval. burst: admitted at once when none were lately.
-- Returns: 0, it is admitted; else in how many ms the next one will be
-- Promise: what is not admitted counts for nothing. All numbers are whole, so nothing is lost to rounding.
local time = redis.call('TIME')
local now = ARGV[1] ~= '' and tonumber(ARGV[1]) or time[1] * 1000000 + time[2]
local count, interval, burst = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
-- A request is as many drops as an interval has microseconds; in each of those `count` drops leak away.
local drops, at = string.match(redis.call('GET', KEYS[1]) or '0 0', '(%d+) (%d+)')
drops = math.max(0, tonumber(drops) - math.max(0, now - tonumber(at)) * count)
local over = drops + interval - burst * interval
if over > 0 then return math.ceil(over / count / 1000) end
drops = drops + interval
redis.call('SET', KEYS[1], string.format('%.0f %.0f', drops, now), 'PX', math.ceil(drops / count / 1000))
return 0
