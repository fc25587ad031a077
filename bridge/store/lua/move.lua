-- Gives a waiting message another due moment.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget labels
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce next_epoch next_nonce due_ms by
--       next_epoch '': there is no successor; the live copy arrives early enough, and the checkpoint holds it.
--       by: who asks, as in _record.lua.
-- Returns: moved | stale (no longer waiting as this copy) | unknown
-- Promise: RabbitMQ confirmed the successor before. The time to live moves with the due moment. Running it twice with
-- the same next_nonce changes the record once.
local r = load()
if not r then return answer('unknown') end
local next_epoch, next_nonce = tonumber(ARGV[8]), tonumber(ARGV[9])
if next_epoch and is(r, next_epoch, next_nonce) then return answer('moved', r) end
if r[STATE] ~= WAITING or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) then
  if next_epoch then outlive(r, tonumber(ARGV[10])) end
  return answer('stale', r)
end
local due = math.max(now, tonumber(ARGV[10]))
if not next_epoch and due < r[ARRIVES] then return answer('stale', r) end
if r[EXPIRES] > 0 then r[EXPIRES] = r[EXPIRES] + due - r[DUE] end
if next_epoch or due ~= r[DUE] then note(r, ARGV[11], WAS_MOVED, next_epoch and due - now or -1, '') end
if not next_epoch then
  r[LAST] = math.max(r[LAST], due)
  make_waiting(r, due, r[ARRIVES])
else
  r[EPOCH], r[NONCE], r[DELIVERED] = next_epoch, next_nonce, nil
  make_waiting(r, due, due)
end
return answer('moved', r)
