-- Finds ghosts among copies of one topic by epoch alone, many at a time.
-- KEYS: records...
-- ARGV: facts...
--       facts: epoch, nonce and created_ms of each copy, in the order of their records.
-- Returns: { 1 where the message has ended or its record is at a later epoch, else 0 }, in the same order
-- Promise: writes nothing. A 1 is certain. A 0 is not: the copy may be a ghost by its nonce, and `fire` decides.
-- States from 4 on are ends, and 6 is dead. A copy without a record is live. A copy that is newer than its record, also
-- than that of a dead letter, may be live. A copy of another life of the id is another message
-- (`_record.lua`).
local out = {}
for at = 1, #ARGV / 3 do
  local stored = redis.call('GET', KEYS[at])
  out[at] = 0
  if stored then
    local r = cmsgpack.unpack(stored)
    local state, epoch, own_nonce, created = unpack(r, 1, 4)
    local copy_epoch, nonce, created_ms = tonumber(ARGV[3 * at - 2]), tonumber(ARGV[3 * at - 1]), tonumber(ARGV[3 * at])
    local newer = copy_epoch - epoch
    local began = r[19] or (epoch == 1 and created or 0)
    local lost_time = r[22] and created_ms < r[22] and created_ms ~= began and created_ms ~= created
    -- A failover may have forgotten the copy's message.
    local own = struct.pack('>I6', created)
    local forgotten = not is_known(r[23] and string.sub(r[23], -6) == own and r[23] or own, created_ms)
    local another = created_ms < began or (epoch == 1 and newer == 0 and nonce ~= own_nonce) or lost_time or forgotten
    local is_over = state >= 4 and (newer <= 0 or state ~= 6)
    if not another and (newer < 0 or is_over) then out[at] = 1 end
  end
end
return out
