-- Decides about a copy that has come out of the wheel.
-- KEYS: message
--       (then, for each further message, its record and envelope)
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce attempt max_retry due_ms expires_ms created_ms
--       paused_ms adopt ahead_ms named waited_ms short_ms by
--       (then, for each further message, its id and all from epoch on)
--       epoch 0: an AMQP client published the copy, without a record; its nonce is 0 too. paused_ms: hold a due copy
--       this long, as its topic is paused; '0': not paused. adopt '1': the copy was ahead of its record for so long
--       that it is believed, unless the message waits for a later moment. ahead_ms: how much before its due moment a
--       copy may be asked about. The caller publishes it at the moment. named: as in `of_forgotten`; '': neither.
--       waited_ms: how long the copy has waited in the wheel, which was its whole delay; '': nobody knows. short_ms: the
--       wheel brings a copy early by so much at most. by: as in _record.lua.
-- Returns: (for each) release (extra: ms of its time to live left, 0: none) | made (as release, with a new record)
--       | hold (extra: ms until it is due) | beside (as hold, for a client's copy; the record is that of the message
--       before, which may be in the ready queue) | ahead (newer than the record of a live message or a dead letter: ask
--       again later; extra: after so many ms, 0: soon) | bury (its retries are used up) | expired | ghost
--       | another (of a life of the id that the record does not know, or of a message that it has forgotten: publish it
--       under an id of its own)
-- Life: waiting -> ready (released); leased -> ready (returned); live -> expired dead (expired)
-- Also: none unconfirmed live dead -> waiting; none unconfirmed leased dead -> ready (released); ready -> ready;
--       leased -> leased; none unconfirmed dead -> expired dead (expired); unconfirmed ended => waiting;
--       unconfirmed ended => ready (released); unconfirmed ended => expired (expired); ended => dead (expired)
-- Promise: the record is ready before the copy is released, and at most ahead_ms before the message is due. The same
-- copy gets the same answer when it comes again, except a client's copy: once its message is ready, it may be a further
-- message of the id.
-- A delay that RabbitMQ has let pass has passed, whatever the clock says: the due moment or the end of the lease was written
-- by a clock that was ahead, or the clock is behind now.
-- A copy is a ghost only if its record has ended, is at a later epoch, or names another copy of the same epoch, within
-- one life of the record, and of a message that the record knows.
local NAMED_WITHIN_MS = 12000
-- The checkpoint holds the due copies of a paused topic for so long, and then asks again (loops/checkpoint/batches.py).
local PAUSED_MS = 5000
local function judge_again(r, due_ms, waited_ms, short_ms)
  local term = r[TERM]
  if r[STATE] == LEASED and r[LEASE_UNTIL] > 0 then
    r[DUE] = math.min(r[DUE], now) -- it was due when it was leased
    if not term then return end
    -- An extended lease lasts at most for the extension, from now on. Any other lease began when the copy began to
    -- wait.
    local left = term < 0 and -term or math.max(0, term - (waited_ms or 0))
    -- A lease counts from the call that names the copy, which the wheel had before. So the copy comes that much too soon.
    -- No call lasts as long as NAMED_WITHIN_MS.
    if term > 0 then left = left + math.max(0, math.min(r[LEASE_UNTIL] - due_ms, NAMED_WITHIN_MS)) end
    -- The copy has waited until its own due moment. By a right clock, that moment can't be further away than the lease
    -- was to last. So the clock was set back since, and the two moments of the clock before tell what is left.
    if waited_ms and due_ms - now > math.abs(term) + STEP_MS and r[LEASE_UNTIL] > due_ms - STEP_MS then
      left = math.min(left, math.max(0, r[LEASE_UNTIL] - due_ms))
    end
    if r[LEASE_UNTIL] - now > left + STEP_MS then r[LEASE_UNTIL] = now + left end
  elseif written_ahead(r, short_ms) then
    -- A clock that was ahead wrote the moment of a message that seems to be created later than now. A message that was
    -- held in a pause was due by that clock.
    local held = r[CREATED] - now > STEP_MS and r[ARRIVES] - r[DUE] >= PAUSED_MS
    if r[STATE] == READY or held then
      r[DUE] = now -- it was due when it became ready, or was held in the pause
    elseif waited_ms and r[DUE] == due_ms then
      r[DUE] = now + short_ms
    end
  end
end

local function fire(epoch, nonce, attempt, max_retry, due_ms, expires_ms, created_ms, paused_ms, adopt, ahead_ms,
    named, waited_ms, short_ms, by)
  epoch, nonce, attempt = tonumber(epoch), tonumber(nonce), tonumber(attempt)
  local r = load()
  local verdict = 'release'
  -- A client's copy is due when the bridge reads it, by the clock of that time, which may have been ahead.
  if epoch == 0 and waited_ms ~= '' then due_ms = math.min(tonumber(due_ms), now) end
  if r and epoch == 0 and free_for_client(r) then
    local next_epoch, next_nonce = r[EPOCH] + 1, nonce
    if live(r) then
      -- The message before may still be in the ready queue, so the record stays its own until this copy is due. Then
      -- both have one name, and neither is a ghost.
      if tonumber(expires_ms) > 0 and tonumber(expires_ms) <= now then return answer('expired', r) end
      local early = math.max(tonumber(due_ms) - now, tonumber(paused_ms))
      if early > tonumber(ahead_ms) then return answer('beside', r, early) end
      next_epoch, next_nonce = r[EPOCH], r[NONCE]
    end
    r = of_client(r, next_epoch, next_nonce, tonumber(due_ms), tonumber(expires_ms), attempt - 1, tonumber(max_retry))
    note_sent(r, by)
    verdict = 'made'
  elseif not r then
    local make = epoch > 0 and found or born
    r = make(math.max(1, epoch), nonce, tonumber(created_ms), tonumber(due_ms), tonumber(expires_ms), attempt - 1,
      tonumber(max_retry))
    verdict = 'made'
  elseif epoch == 0 then
    -- The id's message lives, so this copy is its own or a duplicate.
    if r[NONCE] ~= nonce then return answer('ghost', r) end
  elseif of_another_life(r, epoch, nonce, tonumber(created_ms)) then
    return answer('another', r)
  elseif named == 'message' and forgot(r, epoch, tonumber(created_ms)) then
    r = in_place_of(r, epoch, nonce, tonumber(created_ms), tonumber(due_ms), tonumber(expires_ms), attempt - 1,
      tonumber(max_retry))
    verdict = 'made'
  elseif of_forgotten(r, epoch, nonce, tonumber(created_ms), named) then
    -- The call that is to name a move may still be under way, or be refused.
    return answer(named == 'former' and adopt ~= '1' and 'ahead' or 'another', r)
  elseif ghost(r, epoch, nonce) then
    return answer(of_lost_time(r, tonumber(created_ms)) and 'another' or 'ghost', r)
  elseif r[EPOCH] < epoch then
    if adopt ~= '1' then return answer('ahead', r) end
    -- A message that waits for a later moment has its own copy. This one is of a lease that was refused because the
    -- message had been moved, or of a move that no record names.
    if r[STATE] == WAITING and r[DUE] > now then return answer('ahead', r, r[DUE] - now) end
    r[EPOCH], r[NONCE], r[DUE], r[ATTEMPTS], r[LEASE_UNTIL] = epoch, nonce, tonumber(due_ms), attempt - 1, 0
    r[EXPIRES], r[MAX_RETRY], r[ENDED] = tonumber(expires_ms), tonumber(max_retry), 0
    r[TERM] = r[DUE] > now or nil -- nobody knows how it was given
    if not is_of(r[CREATED], tonumber(created_ms)) then
      r[KNOWN], r[CREATED] = known_with(r, tonumber(created_ms)), tonumber(created_ms)
      r[LABELS], r[REASON], timeline, sent_due = nil, '', nil, nil
    end
    -- The copy may belong to a message that was replacing this one, so the kept body may not be its own.
    free(r)
  end
  if verdict == 'release' and is(r, epoch, nonce) then
    judge_again(r, tonumber(due_ms), tonumber(waited_ms), tonumber(short_ms))
  end
  -- A leased message belongs to its consumer until the lease ends.
  if expired(r) and r[LEASE_UNTIL] <= now then
    expire(r, by)
    return answer('expired', r)
  end
  local wait = math.max(r[DUE] - now, r[LEASE_UNTIL] - now, tonumber(paused_ms))
  local leased = r[LEASE_UNTIL] > now
  if wait > (leased and 0 or tonumber(ahead_ms)) then
    if r[LEASE_UNTIL] > 0 then
      r[ARRIVES], r[LAST], r[DELIVERED] = now + wait, math.max(r[LAST], now + wait), nil
      save(r)
    else
      make_waiting(r, r[DUE], now + wait)
    end
    return answer('hold', r, wait)
  end
  -- The same copy may come again.
  if r[STATE] == LEASED and r[LEASE_UNTIL] > 0 then
    note(r, by, WAS_RETURNED, now - r[LEASE_UNTIL], 'lease ended')
    r[TERM] = nil
  elseif r[STATE] ~= READY then
    local at = math.max(now, r[DUE])
    note(r, by, WAS_RELEASED, at - r[DUE], '', at)
  end
  make_ready(r)
  if attempt > r[MAX_RETRY] + 1 then return answer('bury', r) end
  return answer(verdict, r, r[EXPIRES] > 0 and r[EXPIRES] - math.max(now, r[DUE]) or 0)
end
return for_each(fire)
