-- Tells which copies of a topic are ghosts, many at a time.
-- KEYS: records...
-- ARGV: epochs_and_nonces...
--       epochs_and_nonces: two for each record, in the same order.
-- Returns: { 1 where the copy is provably superseded, else 0 }, in the same order
-- Promise: writes nothing. A record of state 4 and beyond has ended. A copy without a record is live, and so is one
-- that is newer than its record.
local out = {}
for at = 1, #ARGV / 2 do
  local stored = redis.call('GET', KEYS[at])
  out[at] = 0
  if stored then
    local state, epoch, nonce = unpack(cmsgpack.unpack(stored), 1, 3)
    local of, which = tonumber(ARGV[2 * at - 1]), tonumber(ARGV[2 * at])
    if state >= 4 or epoch > of or (epoch == of and nonce ~= which) then out[at] = 1 end
  end
end
return out
