-- Undoes the claim of a send whose copy was certainly not published.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce
-- Returns: withdrawn | kept (the record is confirmed, or belongs to another send)
-- Also: unconfirmed -> none unconfirmed
-- Promise: the id is free at once. Removes the record, unless copies of other calls may still arrive: copies of the
-- id's former record, or copies of a call that was announced or refused meanwhile. The record outlives these copies.
local r = load()
if not r or r[STATE] ~= UNCONFIRMED or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) then
  return answer('kept', r)
end
if r[EPOCH] == 1 and r[LAST] <= r[DUE] and not r[REFUSED] then
  redis.call('DEL', RECORD)
else
  r[CLAIMED], r[DUE] = 0, r[CREATED]
  r[FORGET] = forget_after(r, TOMBSTONE_MS)
  save(r)
end
return answer('withdrawn')
