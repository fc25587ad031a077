-- Keeps the envelope of a message whose record was made from its copy.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce envelope
--       epoch, nonce: of the record as it was made.
-- Returns: kept (also when an envelope was kept before) | ghost (the record has moved on) | unknown
-- Promise: an envelope that was kept before does not change.
local r = load()
if not r then return answer('unknown') end
if ended(r) or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) then return answer('ghost', r) end
if r[KEPT] == '' then
  keep(r, ARGV[8])
  save(r)
end
return answer('kept', r)
