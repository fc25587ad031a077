-- Changes a waiting message: its due moment, its content, its limits, its labels, or several of them.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce seen next_epoch next_nonce arrives_ms due_ms instant
--       only_later ttl_ms max_retry new_labels content envelope by
--       seen: the version that the caller has seen; '': the epoch and the nonce are enough.
--       next_epoch '': there is no successor; the live copy arrives early enough, and the checkpoint holds it.
--       arrives_ms: when the successor reaches the checkpoint. due_ms '': as it is. instant '1':
--       it was given as an instant, and not by a delay. only_later '1': never earlier. A moment that stays is an
--       instant if it was one.
--       ttl_ms: counts from the due moment; '': the time to live moves with it. max_retry '': as it is.
--       new_labels: lines; '-': as they are. content '1': the envelope is that of the successor, which has new content.
--       by: who asks, as in _record.lua.
-- Returns: changed | stale (no longer waiting as this copy, or another version) | unknown
-- Life: waiting -> waiting (moved changed)
-- Promise: RabbitMQ confirmed the successor before. A successor that is not named is a ghost for good, also if the call
-- fails since the memory of Redis is full. Without a successor the content stays. Running it twice with the same
-- next_nonce changes the record once.
local r = load()
if not r then return answer('unknown') end
local next_epoch, next_nonce, arrives = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
if next_epoch and is(r, next_epoch, next_nonce) then return answer('changed', r) end
if r[STATE] ~= WAITING or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) or not as_seen(r, ARGV[8])
    or was_refused(r, next_nonce) then
  if next_epoch then refuse(r, next_epoch, next_nonce, arrives) end
  return answer('stale', r)
end
local due = r[DUE]
if ARGV[12] ~= '' then
  due = math.max(now, tonumber(ARGV[12]))
  if ARGV[14] == '1' then due = math.max(due, r[DUE]) end
end
if not next_epoch and due < r[ARRIVES] then return answer('stale', r) end
local full = next_epoch and refused_as_full(r, next_epoch, next_nonce, arrives)
if full then return full end
local moved_expires = r[EXPIRES] > 0 and r[EXPIRES] + due - r[DUE] or 0
local expires = ARGV[15] ~= '' and due + tonumber(ARGV[15]) or moved_expires
local max_retry, labels = tonumber(ARGV[16]) or r[MAX_RETRY], r[LABELS]
if ARGV[17] ~= '-' then labels = ARGV[17] ~= '' and ARGV[17] or nil end
if ARGV[18] == '1' or expires ~= moved_expires or max_retry ~= r[MAX_RETRY] or labels ~= r[LABELS] then
  note(r, ARGV[20], WAS_CHANGED, next_epoch and arrives - now or -1, '')
elseif next_epoch or due ~= r[DUE] then
  note(r, ARGV[20], WAS_MOVED, next_epoch and arrives - now or -1, '')
end
r[EXPIRES], r[MAX_RETRY], r[LABELS] = expires, max_retry, labels
if ARGV[12] ~= '' and not (ARGV[14] == '1' and due == r[DUE]) then r[TERM] = ARGV[13] == '1' and due > now or nil end
if ARGV[18] == '1' then
  free(r)
  keep(r, ARGV[19])
end
if not next_epoch then
  r[DUE], r[LAST] = due, math.max(r[LAST], due)
  -- The live copy stays on direct release.
  if r[FORGET] > 0 then r[FORGET] = forget_after(r, TOMBSTONE_MS) end
  save(r)
else
  r[EPOCH], r[NONCE], r[DELIVERED] = next_epoch, next_nonce, nil
  make_waiting(r, due, arrives)
end
return answer('changed', r)
