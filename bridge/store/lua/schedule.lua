-- Claims ids for sends: writes an unconfirmed record for each id, or finds the message that has the id.
-- KEYS: message
--       (then, for each further message, its record and envelope)
-- ARGV: now id retention_ms tombstone_ms until_ms mode when_ms ttl_ms max_retry nonce fresh given by
--       (then, for each further message, its id and all from mode on)
--       mode 'in': when_ms counts from now; 'at': when_ms is an instant. ttl_ms counts from the due moment, -1: none.
--       fresh '1': the bridge made the id for this send, so no record can exist. given: as in `give`.
--       by: who sends, as in _record.lua.
-- Returns: (for each) created | exists (a live message has the id, or one that ended before any send of it was answered
--       with success; extra: 1 if none was, else 0)
--       | busy (another send of the id is under way, extra: ms until this one may take it over)
-- Life: none -> unconfirmed (sent)
-- Also: unconfirmed ended -> unconfirmed (sent)
-- Promise: an answer 'exists' means that RabbitMQ has confirmed the message, or that its copy came. Running it twice
-- with the same nonce changes the record once. A dead letter that had the id gets another id.
local TAKE_OVER_AFTER_MS = 10000
local function schedule(mode, when_ms, ttl_ms, max_retry, nonce, fresh, given, by)
  nonce = tonumber(nonce)
  local r = load()
  if r then
    if r[STATE] == UNCONFIRMED and r[NONCE] == nonce then return answer('created', r) end
    if live(r) or (ended(r) and (r[CLAIMED] > 0 or r[CLAIMED] == -nonce)) then
      local unanswered = r[CLAIMED] > 0 or r[CLAIMED] == -nonce
      if r[CLAIMED] > 0 then
        -- This send answers the ones before it. The same send may ask again.
        r[CLAIMED] = -nonce
        save(r)
      end
      return answer('exists', r, unanswered and 1)
    end
    if r[STATE] == UNCONFIRMED and now - r[CLAIMED] < TAKE_OVER_AFTER_MS then
      return answer('busy', r, r[CLAIMED] + TAKE_OVER_AFTER_MS - now)
    end
  end
  -- A claim is the begin of a send, so a full Redis refuses it before anything is published.
  refuse_if_full()
  local due = tonumber(when_ms)
  if mode == 'in' then due = now + due end
  due = math.max(due, now)
  local ttl = tonumber(ttl_ms)
  local make = fresh == '1' and newborn or born
  local claimed = make(r and r[EPOCH] + 1 or 1, nonce, now, due, ttl >= 0 and due + ttl or 0, 0, tonumber(max_retry))
  claimed[CLAIMED] = now
  if mode == 'at' and due > now then claimed[TERM] = true end
  give(claimed, given)
  if r then
    -- Without this claim's own moment: the claim may be withdrawn.
    claimed[LAST] = math.max(r[LAST], r[DUE])
    go_on_from(r, claimed)
    set_aside(r)
    free(r)
  end
  -- The sender may die after it has published the copy, so the claim is forgotten only after the copy has come due.
  claimed[FORGET] = forget_after(claimed, TOMBSTONE_MS)
  if by ~= '-' or claimed[EPOCH] > 1 then note_sent(claimed, by) end
  save(claimed)
  return answer('created', claimed)
end
return for_each(schedule)
