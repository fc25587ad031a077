-- Lists ids of a topic by due moment, then by id, starting behind a cursor.
-- KEYS: waiting ready leased acked expired dead deleted
-- ARGV: states due_from_ms due_to_ms cursor_due_ms cursor_id limit order prefix
--       states: the codes of the wanted states as digits, "12". due_from_ms, due_to_ms: both inclusive.
--       cursor_id '': from the beginning. order 'asc', or 'desc': from the latest on. prefix: how the ids begin.
-- Returns: { looked, last_due_ms, last_id, id, due_ms, state, ... }, a triple for each id with the prefix
--       looked: the number of entries looked at, at most the limit. If it is the limit, there may be more behind the
--       last one, which last_due_ms and last_id name.
-- Promise: writes nothing. Its cost grows with the limit and with the logarithm of the backlog.
local from, to, limit, descends, prefix = ARGV[2], ARGV[3], tonumber(ARGV[6]), ARGV[7] == 'desc', ARGV[8]
local cursor_due, cursor_id = ARGV[4], ARGV[5]

-- Whether a comes before b in the byte order that Redis uses. Lua's own `<` depends on the server's locale.
local function before(a, b)
  for at = 1, math.min(#a, #b) do
    local x, y = string.byte(a, at), string.byte(b, at)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- How many entries are not behind the cursor: those up to it; in descending order, those below it.
local function rank_of_cursor(key)
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. cursor_due)
  local high = redis.call('ZCOUNT', key, '-inf', cursor_due)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local id = redis.call('ZRANGE', key, middle, middle)[1]
    local is_above = before(cursor_id, id) or (descends and id == cursor_id)
    if is_above then high = middle else low = middle + 1 end
  end
  return low
end

-- The first entries of an index in the wanted order, each an id and its due moment.
local function first_entries(key)
  if descends then
    local stop = redis.call('ZCOUNT', key, '-inf', to)
    if cursor_id ~= '' then stop = math.min(stop, rank_of_cursor(key)) end
    if stop == 0 then return {} end
    local start = redis.call('ZCARD', key) - stop
    return redis.call('ZRANGE', key, start, start + limit - 1, 'REV', 'WITHSCORES')
  end
  local start = redis.call('ZCOUNT', key, '-inf', '(' .. from)
  if cursor_id ~= '' then start = math.max(start, rank_of_cursor(key)) end
  return redis.call('ZRANGE', key, start, start + limit - 1, 'WITHSCORES')
end

-- Merges the indexes: each is sorted, so only their first entries are compared.
local lists = {}
for digit in string.gmatch(ARGV[1], '%d') do
  local key = KEYS[tonumber(digit)]
  local entries = first_entries(key)
  if #entries > 0 then
    lists[#lists + 1] = { entries = entries, at = 1, due = tonumber(entries[2]), state = tonumber(digit) }
  end
end
local function comes_first(a, b)
  if a.due ~= b.due then return descends == (a.due > b.due) end
  return descends ~= before(a.entries[a.at], b.entries[b.at])
end
local low, high = tonumber(from), tonumber(to)
local looked, last_due, last_id, out = 0, 0, '', { 0, 0, '' }
while #lists > 0 and looked < limit do
  local first = 1
  for other = 2, #lists do
    if comes_first(lists[other], lists[first]) then first = other end
  end
  local list = lists[first]
  if list.due < low or list.due > high then break end
  looked, last_due, last_id = looked + 1, list.due, list.entries[list.at]
  if string.sub(last_id, 1, #prefix) == prefix then
    local size = #out
    out[size + 1], out[size + 2], out[size + 3] = last_id, list.due, list.state
  end
  list.at = list.at + 2
  if list.at > #list.entries then table.remove(lists, first) else list.due = tonumber(list.entries[list.at + 1]) end
end
out[1], out[2], out[3] = looked, last_due, last_id
return out
