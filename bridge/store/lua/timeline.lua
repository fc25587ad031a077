-- Reads the timeline of a message.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms
-- Returns: found (extra: for each transition, the oldest first, its six values as in _record.lua; none, if the record
--       was changed while no timelines were kept) | unknown
-- Promise: writes nothing.
local r = load()
if not r or r[STATE] == UNCONFIRMED then return answer('unknown') end
if not timeline then return answer('found', r, sent_due and { WAS_SENT, 0, 0, sent_due - r[CREATED], '', '' } or {}) end
return answer('found', r, { cmsgpack.unpack(string.sub(timeline, 3)) })
