-- Restores a message from a backup.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce next_epoch next_nonce state created_ms due_ms expires_ms
--       attempts max_retry last_ms ended_ms forget_ms reason envelope given by
--       epoch, nonce: of the record in the backup. next_epoch, next_nonce: of the copy that the caller published; for a
--       message that has ended, the later epoch of both records, and the nonce again. state: as in the record, but 1
--       for every live message. envelope '': there is nothing to keep. given: as in `give`. by: as in _record.lua.
-- Returns: restored | kept (the record is at least as new as the backup)
-- Also: none unconfirmed live ended -> waiting dead (restored)
-- Promise: a live message's copy is published before, and so is a dead letter. The copy may come before this: then the
-- record is its own, and only its kept envelope and the given values change. A message that has gone on since the backup
-- never changes. Running it twice changes the record once.
local epoch, created, state = tonumber(ARGV[6]), tonumber(ARGV[11]), tonumber(ARGV[10])
local due, ended_ms, envelope = tonumber(ARGV[12]), tonumber(ARGV[17]), ARGV[20]
local next_epoch, next_nonce = tonumber(ARGV[8]), tonumber(ARGV[9])
local r = load()
if r and r[CREATED] == created then
  if is(r, epoch, tonumber(ARGV[7])) then return answer('kept', r) end
  if is(r, next_epoch, next_nonce) then
    local keeps = envelope ~= '' and r[KEPT] == '' and live(r)
    if keeps then keep(r, envelope) end
    local gives = give(r, ARGV[21])
    if keeps or gives then save(r) end
    return answer('restored', r)
  end
end
if r and (r[CREATED] > created or (r[CREATED] == created and r[EPOCH] > epoch)) then return answer('kept', r) end
local restored = born(next_epoch, next_nonce, created, due, tonumber(ARGV[13]), tonumber(ARGV[14]),
  tonumber(ARGV[15]))
restored[LAST], restored[REASON], restored[ENDED] = tonumber(ARGV[16]), ARGV[19], ended_ms
-- The backup does not say when the life began.
if epoch > 1 then restored[BORN] = nil end
if r then
  go_on_from(r, restored)
  restored[LAST] = math.max(restored[LAST], r[LAST], r[DUE])
  if r[CREATED] ~= created then set_aside(r) end -- a letter of the same message is no other one
  free(r)
end
give(restored, ARGV[21])
if envelope ~= '' then keep(restored, envelope) end
timeline, sent_due = nil, nil -- the backup has none
note(restored, ARGV[22], WAS_RESTORED, state == WAITING and due - now or -1, '')
if state == WAITING then
  restored[TERM] = due > now or nil
  make_waiting(restored, due, math.max(due, now))
else
  restored[STATE], restored[FORGET] = state, tonumber(ARGV[18])
  save(restored)
end
return answer('restored', restored)
