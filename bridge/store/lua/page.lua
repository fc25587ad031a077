-- Lists ids of a topic by due moment, then by id, starting behind a cursor.
-- KEYS: waiting ready leased acked expired dead deleted
-- ARGV: states due_from_ms due_to_ms cursor_due_ms cursor_id limit
--       states: the codes of the wanted states as digits, "12". due_from_ms, due_to_ms: both inclusive.
--       cursor_id '': from the beginning.
-- Returns: { id, due_ms, ... }, at most limit pairs
-- Promise: writes nothing. Its cost grows with the limit and with the logarithm of the backlog.
local from, to, limit = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[6])
local cursor_due, cursor_id = tonumber(ARGV[4]), ARGV[5]

-- Whether a comes before b in the byte order that Redis uses. Lua's own `<` depends on the server's locale.
local function before(a, b)
  for at = 1, math.min(#a, #b) do
    local x, y = string.byte(a, at), string.byte(b, at)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- The rank of the first entry behind the cursor.
local function rank_behind(key)
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. ARGV[4])
  local high = redis.call('ZCOUNT', key, '-inf', ARGV[4])
  while low < high do
    local middle = math.floor((low + high) / 2)
    if before(cursor_id, redis.call('ZRANGE', key, middle, middle)[1]) then high = middle else low = middle + 1 end
  end
  return low
end

-- Merges the indexes: each is sorted, so only their first entries are compared.
local lists = {}
for digit in string.gmatch(ARGV[1], '%d') do
  local key = KEYS[tonumber(digit)]
  local start = redis.call('ZCOUNT', key, '-inf', '(' .. from)
  if cursor_id ~= '' then start = math.max(start, rank_behind(key)) end
  local entries = redis.call('ZRANGE', key, start, start + limit - 1, 'WITHSCORES')
  if #entries > 0 then lists[#lists + 1] = { entries = entries, at = 1, due = tonumber(entries[2]) } end
end
local out, count = {}, 0
while #lists > 0 and count < limit do
  local first = 1
  for other = 2, #lists do
    local a, b = lists[other], lists[first]
    if a.due < b.due or (a.due == b.due and before(a.entries[a.at], b.entries[b.at])) then first = other end
  end
  local list = lists[first]
  if list.due > to then break end
  out[2 * count + 1], out[2 * count + 2] = list.entries[list.at], list.due
  count, list.at = count + 1, list.at + 2
  if list.at > #list.entries then table.remove(lists, first) else list.due = tonumber(list.entries[list.at + 1]) end
end
return out
