-- Notes that the lease copy of an unacknowledged delivery is published. The record already names this copy.
-- KEYS: message
--       (then, for each further message, its record and envelope)
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce arrives_ms
--       (then, for each further message, its id and all from epoch on)
--       epoch, nonce: of the lease copy. arrives_ms: when it reaches the checkpoint.
-- Returns: (for each) published | ghost (the record has moved on, so the lease copy is a ghost) | missing (no record)
-- Promise: RabbitMQ confirmed the lease copy before. From now on the delivery is a ghost. Running it twice changes the
-- record once.
local function lease_copy(epoch, nonce, arrives_ms)
  local r = load()
  if not r then return answer('missing') end
  if not (live(r) and is(r, tonumber(epoch), tonumber(nonce))) then
    outlive(r, tonumber(arrives_ms))
    return answer('ghost', r)
  end
  if r[DELIVERED] then
    r[ARRIVES], r[DELIVERED] = tonumber(arrives_ms), nil
    r[LAST] = math.max(r[LAST], r[ARRIVES])
    save(r)
  end
  return answer('published', r)
end
return for_each(lease_copy)
