-- Ends a message as consumed.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget
-- ARGV: now id retention_ms tombstone_ms epoch copy_gone
--       epoch: the receipt's, which fences a late ack of an ended lease; '': whatever is live.
--       copy_gone '1': the consumer took the copy out of the ready queue itself, over AMQP.
-- Returns: acked (also when it was already) | stale (its lease has ended, or it has ended otherwise) | unknown
-- Promise: the copy left in the wheel or in the ready queue becomes a ghost, and the record outlives it.
local r = load()
if not r or r[STATE] == UNCONFIRMED then return answer('unknown') end
local fenced = ARGV[5] ~= ''
if fenced and r[EPOCH] ~= tonumber(ARGV[5]) then return answer('stale', r) end
if r[STATE] == ACKED then return answer('acked', r) end
if not live(r) or (fenced and r[STATE] ~= LEASED) then return answer('stale', r) end
local copy_stays = r[STATE] == READY and ARGV[6] ~= '1'
finish(r, ACKED, '', copy_stays and TOMBSTONE_MS or RETENTION_MS)
return answer('acked', r)
