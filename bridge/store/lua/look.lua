-- Reads a record and its envelope.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms
-- Returns: found (extra: the envelope or 0) | unknown
-- Promise: writes nothing.
local r = load()
if not r or r[STATE] == UNCONFIRMED then return answer('unknown') end
local kept = r[KEPT]
if kept == true then kept = redis.call('GET', ENVELOPE) or '' end
return answer('found', r, kept ~= '' and kept)
