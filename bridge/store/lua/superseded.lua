-- Finds ghosts among copies of one topic by epoch alone, many at a time.
-- KEYS: records...
-- ARGV: epochs...
--       epochs: of the copies, in the order of their records.
-- Returns: { 1 where the message has ended or its record is at a later epoch, else 0 }, in the same order
-- Promise: writes nothing. A 1 is certain. A 0 is not: the copy may be a ghost by its nonce, and `fire` decides.
-- States from 4 on are ends, and 6 is dead. A copy without a record is live. A copy that is newer than its record, also
-- than that of a dead letter, may be live.
local out = {}
for at = 1, #ARGV do
  local stored = redis.call('GET', KEYS[at])
  out[at] = 0
  if stored then
    local state, epoch = unpack(cmsgpack.unpack(stored), 1, 2)
    local newer = tonumber(ARGV[at]) - epoch
    if newer < 0 or (state >= 4 and (state ~= 6 or newer == 0)) then out[at] = 1 end
  end
end
return out
