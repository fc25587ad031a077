-- Lists ids of a topic whose messages have all the labels, by due moment, then by id, starting behind a cursor.
-- KEYS: waiting ready leased acked expired dead deleted labels
-- ARGV: states due_from_ms due_to_ms cursor_due_ms cursor_id limit order prefix wanted
--       As page.lua; wanted: the labels as lines, "customer=42".
-- Returns: { looked, last_due_ms, last_id, id, due_ms, state, ... }, as page.lua; looked: at entries of one label
-- Promise: writes nothing. Its cost grows with the limit and with the logarithm of the number of labels.
local states, limit, descends, prefix = ARGV[1], tonumber(ARGV[6]), ARGV[7] == 'desc', ARGV[8]
local cursor_due, cursor_id = tonumber(ARGV[4]), ARGV[5]

local function moment(ms) return string.format('%013.0f', math.max(0, math.min(ms, 9999999999999))) end

-- Reads the entries of the rarest label, and looks for the others. The entries of a label are sorted as page.lua sorts.
local label, least, others = nil, nil, {}
for wanted in string.gmatch(ARGV[9], '[^\n]+') do
  local count = redis.call('ZLEXCOUNT', KEYS[8], '[' .. wanted .. '\n', '(' .. wanted .. '\n:')
  if label and count >= least then
    others[#others + 1] = wanted
  else
    if label then others[#others + 1] = label end
    label, least = wanted, count
  end
end
local start = label .. '\n'
local low, high = '[' .. start .. moment(tonumber(ARGV[2])), '(' .. start .. moment(tonumber(ARGV[3])) .. '\127'
if cursor_id ~= '' then
  local cursor = '(' .. start .. moment(cursor_due) .. cursor_id
  if descends then
    if cursor_due <= tonumber(ARGV[3]) then high = cursor end
  elseif cursor_due >= tonumber(ARGV[2]) then
    low = cursor
  end
end
local entries
if descends then
  entries = redis.call('ZRANGE', KEYS[8], high, low, 'BYLEX', 'REV', 'LIMIT', 0, limit)
else
  entries = redis.call('ZRANGE', KEYS[8], low, high, 'BYLEX', 'LIMIT', 0, limit)
end

-- The wanted state of the message, if it has one and all other labels. An entry that a lost record left has none.
local function state_of(place, due, id)
  for _, other in ipairs(others) do
    if not redis.call('ZSCORE', KEYS[8], other .. '\n' .. place) then return nil end
  end
  for digit in string.gmatch(states, '%d') do
    local score = redis.call('ZSCORE', KEYS[tonumber(digit)], id)
    if score then return tonumber(score) == due and tonumber(digit) or nil end
  end
end

local out = { #entries, 0, '' }
for _, entry in ipairs(entries) do
  local place = string.sub(entry, #start + 1)
  local due, id = tonumber(string.sub(place, 1, 13)), string.sub(place, 14)
  local state = string.sub(id, 1, #prefix) == prefix and state_of(place, due, id)
  local size = #out
  if state then out[size + 1], out[size + 2], out[size + 3] = id, due, state end
  out[2], out[3] = due, id
end
return out
