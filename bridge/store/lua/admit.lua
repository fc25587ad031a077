-- Admits one request, or says when the next one is admitted: an evenly leaking bucket, also known as GCRA.
-- KEYS: rate
-- ARGV: now_us count interval_us burst
--       now_us: '' takes the time of Redis. count: requests admitted in each interval.
--       burst: requests admitted at once after a pause.
-- Returns: 0 where the request is admitted, else the milliseconds until the next one is
-- Promise: a refused request does not count. All numbers are whole, so rounding loses nothing.
local time = redis.call('TIME')
local now = ARGV[1] ~= '' and tonumber(ARGV[1]) or time[1] * 1000000 + time[2]
local count, interval, burst = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
-- One request adds one drop for each microsecond of an interval; `count` drops leak away every microsecond.
local drops, at = string.match(redis.call('GET', KEYS[1]) or '0 0', '(%d+) (%d+)')
drops = math.max(0, tonumber(drops) - math.max(0, now - tonumber(at)) * count)
local over = drops + interval - burst * interval
if over > 0 then return math.ceil(over / count / 1000) end
drops = drops + interval
redis.call('SET', KEYS[1], string.format('%.0f %.0f', drops, now), 'PX', math.ceil(drops / count / 1000))
return 0
