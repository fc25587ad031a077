-- Extends a lease; the checkpoint holds the lease copy back when it arrives. A lease never becomes shorter.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce lease_ms by
--       epoch, nonce: from the receipt; epoch '': extends any lease. lease_ms counts from now.
--       by: who asks, as in _record.lua.
-- Returns: extended | stale (not leased, or under another lease) | unknown
-- Life: leased -> leased (extended)
-- Promise: changes the record only. If the clock was set back since the lease was written, the lease lasts as long as it
-- was to last then, from now on.
local r = load()
if not r or r[STATE] == UNCONFIRMED then return answer('unknown') end
if r[STATE] ~= LEASED or (ARGV[6] ~= '' and not named_by(r, ARGV[6], ARGV[7])) then return answer('stale', r) end
local term = math.abs(r[TERM] or 0)
if term > 0 and now < r[LEASE_UNTIL] - term then r[LEASE_UNTIL] = now + term end
r[LEASE_UNTIL] = math.max(r[LEASE_UNTIL], now + tonumber(ARGV[8]))
r[TERM] = now - r[LEASE_UNTIL]
r[LAST] = math.max(r[LAST], r[LEASE_UNTIL])
note(r, ARGV[9], WAS_EXTENDED, 0, '')
save(r)
return answer('extended', r)
