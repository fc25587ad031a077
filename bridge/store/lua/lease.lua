-- Leases a message to a consumer: the record names the lease copy, which comes due when the lease ends.
-- KEYS: message
--       (then, for each further message, its record and envelope)
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce attempt max_retry due_ms expires_ms created_ms
--       next_epoch next_nonce lease_ms arrives_in_ms counted unacked waited by
--       (then, for each further message, its id and all from epoch on)
--       epoch, nonce: of the copy in the ready queue. arrives_in_ms: until the lease copy reaches the checkpoint.
--       counted '0': the delivery uses up no retry. unacked '1': nobody has published the lease copy. The caller keeps
--       the delivery unacknowledged until the message is settled or the lease copy is published.
--       epoch 0: an AMQP client published the copy, without a record. waited '1': it came straight out of the wheel,
--       after its whole delay. by: who asks, as in _record.lua.
-- Returns: (for each) leased | hold (not due yet, extra: ms until it is; 0: of epoch 0, and its id was used before, so
--       the checkpoint decides) | delivered (it is leased to another consumer, whose process no longer has the
--       delivery; extra: ms until the lease copy has to come) | ahead | expired | ghost | another (as in fire.lua)
-- Life: ready -> leased (leased); ready -> expired dead (expired)
-- Also: none unconfirmed waiting leased -> leased (leased); none waiting leased -> expired dead (expired);
--       unconfirmed -> expired (expired); ended => leased (leased); ended => expired dead (expired)
-- Promise: RabbitMQ confirmed the lease copy before, or has the delivery, and the record outlives both. Running it
-- twice with the same next_nonce changes the record once.
local function lease(epoch, nonce, attempt, max_retry, due_ms, expires_ms, created_ms, next_epoch, next_nonce,
    lease_ms, arrives_in_ms, counted, unacked, waited, by)
  local own = epoch == '0'
  epoch, nonce, attempt = math.max(1, tonumber(epoch)), tonumber(nonce), tonumber(attempt)
  next_epoch, next_nonce = tonumber(next_epoch), tonumber(next_nonce)
  local arrives = now + tonumber(arrives_in_ms)
  local r = load()
  if not r then
    local make = own and born or found
    r = make(epoch, nonce, tonumber(created_ms), tonumber(due_ms), tonumber(expires_ms), attempt - 1,
      tonumber(max_retry))
  elseif r[STATE] == LEASED and is(r, next_epoch, next_nonce) then
    return answer('leased', r)
  elseif own and not (live(r) and is(r, epoch, nonce)) and free_for_client(r) then
    -- The lease copy has the epoch of an id without a record.
    outlive(r, arrives)
    return answer('hold', r, 0)
  elseif not own and delivered(r, epoch, nonce) then
    return answer('delivered', r, until_lease_copy(r))
  elseif not own and of_another_life(r, epoch, nonce, tonumber(created_ms)) then
    return answer('another', r)
  elseif not own and forgot(r, epoch, tonumber(created_ms)) then
    if tonumber(due_ms) > now then return answer('hold', r, tonumber(due_ms) - now) end
    r = in_place_of(r, epoch, nonce, tonumber(created_ms), tonumber(due_ms), tonumber(expires_ms), attempt - 1,
      tonumber(max_retry))
  elseif not own and of_forgotten(r, epoch, nonce, tonumber(created_ms), 'message') then
    return answer('another', r)
  elseif ghost(r, epoch, nonce) then
    if not own and of_lost_time(r, tonumber(created_ms)) then return answer('another', r) end
    outlive(r, arrives)
    return answer('ghost', r)
  elseif r[EPOCH] < epoch then
    outlive(r, arrives)
    return answer('ahead', r)
  end
  if expired(r) then
    r[LAST] = math.max(r[LAST], arrives)
    expire(r, by)
    return answer('expired', r)
  end
  -- A ready message was due when it became ready.
  local has_waited = waited == '1' and r[DUE] == tonumber(due_ms)
  if (r[STATE] == READY or has_waited) and written_ahead(r, 0) then r[DUE] = now end
  if r[DUE] > now then return answer('hold', r, r[DUE] - now) end
  r[STATE], r[EPOCH], r[NONCE], r[DELIVERED], r[TERM] = LEASED, next_epoch, next_nonce, nil, tonumber(lease_ms)
  if unacked == '1' then r[DELIVERED] = nonce end
  r[ATTEMPTS] = counted == '1' and attempt or attempt - 1
  r[LEASE_UNTIL], r[ARRIVES], r[FORGET] = now + tonumber(lease_ms), arrives, 0
  r[LAST] = math.max(r[LAST], r[ARRIVES])
  note(r, by, WAS_LEASED, unacked == '1' and -1 or tonumber(lease_ms), '')
  save(r)
  return answer('leased', r)
end
return for_each(lease)
