-- Confirms claimed records after RabbitMQ has confirmed their copies.
-- KEYS: message
--       (then, for each further message, its record and envelope)
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce created_ms ready direct answer_by_ms envelope
--       (then, for each further message, its id and all from epoch on)
--       ready '1': the copy was published straight into its ready queue.
--       direct '1': the copy reaches its ready queue without the checkpoint, so the bridge may never see it again.
--       answer_by_ms: after it the caller gets no answer of success any more; 0: the caller waits.
--       envelope '': there is nothing to keep.
-- Returns: (for each) confirmed | unanswered (the message is accepted, too late for the caller)
--       | superseded (another send took the id over) | missing (the record is gone, and the send is not accepted)
-- Life: unconfirmed -> waiting ready
-- Promise: only the state unconfirmed changes. A copy that arrived before its confirmation keeps its later state. From
-- now on a confirmed send counts as answered. The message of an unanswered send is the answer to the next send of its
-- id.
local function confirm(epoch, nonce, created_ms, ready, direct, answer_by_ms, envelope)
  local r = load()
  if not r then return answer('missing') end
  local mine = is(r, tonumber(epoch), tonumber(nonce))
  if r[CREATED] ~= tonumber(created_ms) or (r[STATE] == UNCONFIRMED and not mine) then return answer('superseded', r) end
  answer_by_ms = tonumber(answer_by_ms)
  local in_time = answer_by_ms == 0 or now <= answer_by_ms
  local changed = in_time and r[CLAIMED] ~= 0
  if envelope ~= '' and r[KEPT] == '' then
    write_although_full()
    keep(r, envelope)
    changed = true
  end
  if in_time then r[CLAIMED] = 0 end
  if r[STATE] == UNCONFIRMED then
    write_although_full()
    if ready == '1' then
      make_ready(r)
    elseif direct == '1' then
      r[STATE], r[LAST] = WAITING, math.max(r[LAST], r[DUE])
      save(r)
    else
      make_waiting(r, r[DUE], r[ARRIVES])
    end
  elseif changed then
    save(r)
  end
  return answer(r[CLAIMED] == 0 and 'confirmed' or 'unanswered', r)
end
return for_each(confirm)
