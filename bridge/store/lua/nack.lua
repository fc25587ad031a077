-- Gives a leased message back: the record names the successor, which waits. Without a successor it still names the
-- lease copy, and the message comes back when the lease would have ended.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget labels
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce next_epoch next_nonce due_ms reason by
--       next_epoch '': there is no successor, as the body was not kept. by: who asks, as in _record.lua.
-- Returns: nacked | stale (no longer leased as this copy) | unknown
-- Promise: RabbitMQ confirmed the successor before. Running it twice with the same next_nonce changes the record once.
local r = load()
if not r then return answer('unknown') end
local next_epoch, next_nonce = tonumber(ARGV[8]), tonumber(ARGV[9])
if next_epoch and is(r, next_epoch, next_nonce) then return answer('nacked', r) end
if r[STATE] ~= LEASED or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) then
  if next_epoch then outlive(r, tonumber(ARGV[10])) end
  return answer('stale', r)
end
local due = tonumber(ARGV[10])
r[REASON] = ARGV[11]
note(r, ARGV[12], WAS_NACKED, next_epoch and due - now or -1, r[REASON])
if next_epoch then
  r[EPOCH], r[NONCE], r[DELIVERED] = next_epoch, next_nonce, nil
  make_waiting(r, due, due)
else
  make_waiting(r, math.max(due, r[ARRIVES]), r[ARRIVES])
end
return answer('nacked', r)
