-- Drops a dead letter: its record ends as deleted, and Redis expires it later.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce by
--       epoch, nonce: of the dead letter; epoch '': of any. by: who asks, as in _record.lua.
-- Returns: dropped | stale (the message is not this dead letter) | unknown
-- Life: dead -> deleted (dropped)
-- Promise: a copy that is left in the dead-letter queue is a ghost.
local r = load()
if not r then return answer('unknown') end
if r[STATE] ~= DEAD or (ARGV[6] ~= '' and not named_by(r, ARGV[6], ARGV[7])) then return answer('stale', r) end
free(r)
finish(r, ARGV[8], WAS_DROPPED, DELETED, '', TOMBSTONE_MS)
return answer('dropped', r)
