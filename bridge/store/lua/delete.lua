-- Deletes a live message: the record becomes its tombstone.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms release created_ms seen ahead_ms by
--       release '1': also free the envelope. created_ms: delete only a message created then; '': delete any.
--       seen: delete only the version that the caller has seen; '': delete any.
--       ahead_ms: refuse to delete a message that fire.lua has released so much ahead of its due moment; 0: never.
--       by: who asks, as in _record.lua.
-- Returns: deleted (also when it was deleted before) | ended (in another way) | other (created at another moment)
--       | stale (another version) | releasing (extra: ms until it is due) | unknown
-- Life: live -> deleted (deleted)
-- Also: unconfirmed -> deleted (deleted)
-- Promise: every copy that comes out of the wheel from now on is a ghost.
local r = load()
if not r then return answer('unknown') end
if ARGV[7] ~= '' and r[CREATED] ~= tonumber(ARGV[7]) then return answer('other', r) end
if not as_seen(r, ARGV[8]) then return answer('stale', r) end
if r[STATE] >= ACKED and r[STATE] ~= DELETED then return answer('ended', r) end
local early = r[DUE] - now
if r[STATE] == READY and early > 0 and early <= tonumber(ARGV[9]) then return answer('releasing', r, early) end
local frees = ARGV[6] == '1' and r[KEPT] ~= ''
if frees then free(r) end
if r[STATE] ~= DELETED then
  finish(r, ARGV[10], WAS_DELETED, DELETED, '', TOMBSTONE_MS)
elseif frees then
  save(r)
end
return answer('deleted', r)
