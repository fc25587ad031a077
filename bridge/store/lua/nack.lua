-- Gives a leased message back: the record names the successor, which waits. Without a successor it still names the
-- lease copy, and the message comes back when the lease would have ended. With its retries used up it does not come
-- back: it stays leased until then, and the lease copy makes it a dead letter.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce next_epoch next_nonce due_ms reason by
--       next_epoch '': there is no successor, as the body was not kept. by: who asks, as in _record.lua.
-- Returns: nacked | stale (no longer leased as this copy) | unknown
-- Life: leased -> waiting (nacked)
-- Also: leased -> leased (nacked)
-- Promise: RabbitMQ confirmed the successor before. A successor that is not named is a ghost for good. Running it twice
-- with the same next_nonce or, with the retries used up, the same reason changes the record once.
local r = load()
if not r then return answer('unknown') end
local next_epoch, next_nonce = tonumber(ARGV[8]), tonumber(ARGV[9])
if next_epoch and is(r, next_epoch, next_nonce) then return answer('nacked', r) end
if r[STATE] ~= LEASED or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) then
  if next_epoch then refuse(r, next_epoch, next_nonce, tonumber(ARGV[10])) end
  return answer('stale', r)
end
local due = tonumber(ARGV[10])
local last = not next_epoch and r[ATTEMPTS] > r[MAX_RETRY]
if last and r[LEASE_UNTIL] == r[ARRIVES] and r[REASON] == ARGV[11] then return answer('nacked', r) end
r[REASON] = ARGV[11]
note(r, ARGV[12], WAS_NACKED, next_epoch and due - now or -1, r[REASON])
if next_epoch then
  r[EPOCH], r[NONCE], r[DELIVERED], r[TERM] = next_epoch, next_nonce, nil, nil
  make_waiting(r, due, due)
elseif last then
  r[LEASE_UNTIL] = r[ARRIVES] -- an extended lease too ends with its copy
  save(r)
else
  r[TERM] = nil
  make_waiting(r, math.max(due, r[ARRIVES]), r[ARRIVES])
end
return answer('nacked', r)
