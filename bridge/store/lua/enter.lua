-- Enters messages under ids that the bridge made for them, after RabbitMQ has confirmed their copies.
-- KEYS: message
--       (then, for each further message, its record and envelope)
-- ARGV: now id retention_ms tombstone_ms until_ms nonce created_ms due_ms expires_ms max_retry direct instant
--       envelope given by
--       (then, for each further message, its id and all from nonce on)
--       created_ms: when the send came, by the bridge's estimate. direct '1': the copy reaches its ready queue without
--       the checkpoint, so the bridge may never see it again. instant '1': due_ms was given as an instant, and not by a
--       delay. envelope '': there is nothing to keep. given: as in `give`.
--       by: who sent it, as in _record.lua.
-- Returns: (for each) entered (extra: 1 if the memory of Redis is full, so that later sends must claim first; else 0)
--       | unanswered (no record, and it is too late to make one: the copy may have come and gone)
-- Life: none -> waiting (sent)
-- Promise: a record under the id is the message's own, since nobody else knows the id. Its copy came before it was
-- entered. Then only its kept envelope and the given values change. Running it twice changes the record once.
local function enter(nonce, created_ms, due_ms, expires_ms, max_retry, direct, instant, envelope, given, by)
  local r = load()
  local entered = r ~= nil
  if not entered then
    due_ms = tonumber(due_ms)
    if due_ms <= now then return answer('unanswered') end
    r = newborn(1, tonumber(nonce), tonumber(created_ms), due_ms, tonumber(expires_ms), 0, tonumber(max_retry))
  end
  local full = write_although_full()
  local keeps = envelope ~= '' and r[KEPT] == '' and (not entered or live(r))
  if keeps then keep(r, envelope) end
  local gives = give(r, given)
  if not entered then
    if by ~= '-' then note_sent(r, by) end
    r[STATE], r[TERM] = WAITING, instant == '1' or nil
    -- Redis expires the record, in case nobody tells it that the message was consumed.
    if direct == '1' then r[FORGET] = forget_after(r, TOMBSTONE_MS) end
  end
  if keeps or gives or not entered then save(r) end
  return answer('entered', r, full and 1)
end
return for_each(enter)
