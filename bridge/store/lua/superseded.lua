-- Finds ghosts among copies of one topic by epoch alone, many at a time.
-- KEYS: records...
-- ARGV: facts...
--       facts: epoch, nonce and created_ms of each copy, in the order of their records.
-- Returns: { 1 where the message has ended or its record is at a later epoch, else 0 }, in the same order
-- Promise: writes nothing. A 1 is certain. A 0 is not: the copy may be a ghost by its nonce, and `fire` decides.
-- A copy without a record is live. A copy that is newer than its record, also than that of a dead letter, may be live. A
-- copy of another life of the id is another message (`_moments.lua`).
local out = {}
for at = 1, #ARGV / 3 do
  local stored = redis.call('GET', KEYS[at])
  out[at] = 0
  if stored then
    local r = cmsgpack.unpack(stored)
    if r[EPOCH] == 1 then r[BORN] = r[CREATED] end
    local epoch, nonce, created_ms = tonumber(ARGV[3 * at - 2]), tonumber(ARGV[3 * at - 1]), tonumber(ARGV[3 * at])
    local another = of_another_life(r, epoch, nonce, created_ms) or of_lost_time(r, created_ms)
      or not is_known(known(r), created_ms) -- a failover may have forgotten the copy's message
    local is_over = r[STATE] >= ACKED and (r[EPOCH] >= epoch or r[STATE] ~= DEAD)
    if not another and (r[EPOCH] > epoch or is_over) then out[at] = 1 end
  end
end
return out
