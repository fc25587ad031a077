-- Deletes a live message: the record becomes its tombstone.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget
-- ARGV: now id retention_ms tombstone_ms until_ms release created_ms
--       release '1': also free the envelope. created_ms: delete only a message created then; '': delete any.
-- Returns: deleted (also when it was deleted before) | ended (in another way) | other (created at another moment)
--       | unknown
-- Promise: every copy that comes out of the wheel from now on is a ghost.
local r = load()
if not r then return answer('unknown') end
if ARGV[7] ~= '' and r[CREATED] ~= tonumber(ARGV[7]) then return answer('other', r) end
if r[STATE] >= ACKED and r[STATE] ~= DELETED then return answer('ended', r) end
local frees = ARGV[6] == '1' and r[KEPT] ~= ''
if frees then free(r) end
if r[STATE] ~= DELETED then
  finish(r, DELETED, '', TOMBSTONE_MS)
elseif frees then
  save(r)
end
return answer('deleted', r)
