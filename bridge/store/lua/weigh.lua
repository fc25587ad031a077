-- Reads a record and the size of its envelope, for callers that choose how many envelopes to read at once.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms
-- Returns: found (extra: the envelope's bytes in Redis) | unknown
-- Promise: writes nothing.
local r = load()
if not r or r[STATE] == UNCONFIRMED then return answer('unknown') end
local kept = r[KEPT]
return answer('found', r, kept == true and redis.call('STRLEN', ENVELOPE) or #kept)
