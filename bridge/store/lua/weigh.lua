-- Reads a record and the size of its envelope, for callers that choose how many envelopes to read at once.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms
-- Returns: found (extra: the envelope's bytes in Redis) | instant (as found; the message waits for an instant) | unknown
-- Promise: writes nothing.
local r = load()
if not r or r[STATE] == UNCONFIRMED then return answer('unknown') end
local kept = r[KEPT]
local bytes = kept == true and redis.call('STRLEN', ENVELOPE) or #kept
if r[STATE] == WAITING and r[TERM] then return answer('instant', r, bytes) end
return answer('found', r, bytes)
