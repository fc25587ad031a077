-- Counts the messages of a topic by state, and the waiting ones by how soon they are due.
-- KEYS: waiting ready leased acked expired dead deleted forget labels
-- ARGV: now edges_ms...
--       edges_ms: ascending distances from now.
-- Returns: { now, seven counts by state, then the waiting messages that are overdue, those due before each edge (and
--          not before the previous one), those due later, and for how many ms the oldest waiting and the oldest ready
--          message have been due (0: not due, or there is none) }
-- Promise: first removes index entries of forgotten records, at most two hundred, and the labels of as many.
local time = redis.call('TIME')
local now = ARGV[1] ~= '' and tonumber(ARGV[1]) or time[1] * 1000 + math.floor(time[2] / 1000)
local gone = redis.call('ZRANGEBYSCORE', KEYS[8], '-inf', now, 'LIMIT', 0, 200)
if #gone > 0 then
  for key = 1, 8 do redis.call('ZREM', KEYS[key], unpack(gone)) end
end
for _, entry in ipairs(redis.call('ZRANGE', KEYS[9], '[!', string.format('(!%013.0f', now + 1), 'BYLEX', 'LIMIT', 0, 200)) do
  local place, labels = string.match(string.sub(entry, 15), '^([^\n]*)\n(.*)$')
  redis.call('ZREM', KEYS[9], entry)
  for label in string.gmatch(labels, '[^\n]+') do redis.call('ZREM', KEYS[9], label .. '\n' .. place) end
end
local out = { now }
for state = 1, 7 do out[#out + 1] = redis.call('ZCARD', KEYS[state]) end
local from = '-inf'
local edge = string.format('%.0f', now)
out[#out + 1] = redis.call('ZCOUNT', KEYS[1], from, '(' .. edge)
for at = 2, #ARGV do
  from, edge = edge, string.format('%.0f', now + tonumber(ARGV[at]))
  out[#out + 1] = redis.call('ZCOUNT', KEYS[1], from, '(' .. edge)
end
out[#out + 1] = redis.call('ZCOUNT', KEYS[1], edge, '+inf')
for state = 1, 2 do
  local oldest = redis.call('ZRANGE', KEYS[state], 0, 0, 'WITHSCORES')
  out[#out + 1] = oldest[2] and math.max(0, now - tonumber(oldest[2])) or 0
end
return out
