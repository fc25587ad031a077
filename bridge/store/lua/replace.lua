-- Replaces a live message by another one under the same id, with its own due moment, body and limits, and no attempts.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce next_epoch next_nonce created_ms due_ms expires_ms
--       max_retry instant envelope given ahead_ms by
--       instant '1': due_ms was given as an instant, and not by a delay. envelope '': there is nothing to keep.
--       given: as in `give`. ahead_ms: refuse to replace a message that fire.lua has released so much ahead of its
--       due moment. by: who asks, as in _record.lua.
-- Returns: replaced | stale (no longer live as this copy) | releasing (extra: ms until it is due) | unknown
-- Life: live -> waiting (replaced)
-- Promise: RabbitMQ confirmed the successor before. The copies of the replaced message are ghosts, and its lease ends.
-- A refused successor is a ghost for good, also if the call fails since the memory of Redis is full. A successor that
-- no call has named or refused counts as another message once this message has moved on, because Redis may have
-- forgotten the call. Running it twice with the same next_nonce changes the record once.
local r = load()
if not r then return answer('unknown') end
local next_epoch, next_nonce, due = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[11])
if is(r, next_epoch, next_nonce) then return answer('replaced', r) end
if not live(r) or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) or was_refused(r, next_nonce) then
  refuse(r, next_epoch, next_nonce, due, true)
  return answer('stale', r)
end
local early = r[DUE] - now
if r[STATE] == READY and early > 0 and early <= tonumber(ARGV[17]) then
  refuse(r, next_epoch, next_nonce, due, true)
  return answer('releasing', r, early)
end
local full = refused_as_full(r, next_epoch, next_nonce, due, true)
if full then return full end
-- It replaces also what Redis has forgotten. After a loss of the record, only exact moments tell what the record knows.
r[KNOWN] = known_with(r, tonumber(ARGV[10]), not r[FOUND])
r[EPOCH], r[NONCE], r[CREATED], r[EXPIRES], r[MAX_RETRY] = next_epoch, next_nonce, tonumber(ARGV[10]),
  tonumber(ARGV[12]), tonumber(ARGV[13])
r[ATTEMPTS], r[REASON], r[CLAIMED], r[DELIVERED], r[LABELS] = 0, '', 0, nil, nil
give(r, ARGV[16])
r[TERM] = ARGV[14] == '1' and due > now or nil
timeline, sent_due = nil, nil
note(r, ARGV[18], WAS_REPLACED, due - now, '')
free(r)
keep(r, ARGV[15])
make_waiting(r, due, due)
return answer('replaced', r)
