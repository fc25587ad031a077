-- Hands a message to a consumer: points its record at the lease copy, which comes due when the lease ends.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget
-- ARGV: now id retention_ms tombstone_ms epoch nonce attempt max_retry due_ms expires_ms created_ms next_epoch next_nonce
--       lease_ms arrives_in_ms counted
--       epoch, nonce: those of the copy in the ready queue. arrives_in_ms: when the lease copy reaches the checkpoint.
--       counted '0': the delivery is none of those that the retries allow.
-- Returns: leased | hold (not due yet, extra: ms until it is) | ahead | expired | ghost
-- Promise: the lease copy was confirmed before, and the record outlives it. Twice with one next_nonce is as once.
local epoch, nonce, attempt = math.max(1, tonumber(ARGV[5])), tonumber(ARGV[6]), tonumber(ARGV[7])
local next_epoch, next_nonce, arrives = tonumber(ARGV[12]), tonumber(ARGV[13]), now + tonumber(ARGV[15])
local r = load()
if not r then
  r = born(epoch, nonce, tonumber(ARGV[11]), tonumber(ARGV[9]), tonumber(ARGV[10]), attempt - 1,
    tonumber(ARGV[8]))
elseif r[STATE] == LEASED and is(r, next_epoch, next_nonce) then
  return answer('leased', r)
elseif ended(r) or r[EPOCH] > epoch or (r[EPOCH] == epoch and r[NONCE] ~= nonce) then
  outlive(r, arrives)
  return answer('ghost', r)
elseif r[EPOCH] < epoch then
  outlive(r, arrives)
  return answer('ahead', r)
end
if expired(r) then
  r[LAST] = math.max(r[LAST], arrives)
  expire(r)
  return answer('expired', r)
end
if r[DUE] > now then return answer('hold', r, r[DUE] - now) end
r[STATE], r[EPOCH], r[NONCE] = LEASED, next_epoch, next_nonce
r[ATTEMPTS] = ARGV[16] == '1' and attempt or attempt - 1
r[LEASE_UNTIL], r[ARRIVES], r[FORGET], r[CLAIMED] = now + tonumber(ARGV[14]), arrives, 0, 0
r[LAST] = math.max(r[LAST], r[ARRIVES])
save(r)
return answer('leased', r)
