-- Claims an id for a send: writes its record as unconfirmed, or finds the live message that has the id.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget
-- ARGV: now id retention_ms tombstone_ms mode when_ms ttl_ms max_retry nonce max_delay_ms fresh
--       mode 'in': when_ms counts from now; 'at': when_ms is an instant. ttl_ms counts from due, -1 is none.
--       fresh '1': the id was made for this send, so nothing was ever known under it.
-- Returns: created | exists (the live record) | busy (another send of it is under way, ms until it can be taken over)
--       | too_far (the longest delay is passed, by ms)
-- Promise: an answer 'exists' stands for a message that RabbitMQ has confirmed. Twice with one nonce is as once.
local TAKE_OVER_AFTER_MS = 10000
local nonce = tonumber(ARGV[9])
local r = load()
if r then
  if r[STATE] == UNCONFIRMED and r[NONCE] == nonce then return answer('created', r) end
  if live(r) then return answer('exists', r) end
  if r[STATE] == UNCONFIRMED and now - r[CLAIMED] < TAKE_OVER_AFTER_MS then
    return answer('busy', r, r[CLAIMED] + TAKE_OVER_AFTER_MS - now)
  end
end
local due = tonumber(ARGV[6])
if ARGV[5] == 'in' then due = now + due end
due = math.max(due, now)
local beyond = due - now - tonumber(ARGV[10])
if beyond > 0 then return answer('too_far', nil, beyond) end
local ttl = tonumber(ARGV[7])
local make = ARGV[11] == '1' and newborn or born
local claim = make(r and r[EPOCH] + 1 or 1, nonce, now, due, ttl >= 0 and due + ttl or 0, 0, tonumber(ARGV[8]))
claim[CLAIMED] = now
if r then
  claim[LAST] = math.max(r[LAST], due)
  free(r)
end
-- A claim whose sender died is forgotten after its copy, which may have been published, has come due.
claim[FORGET] = forget_after(claim, TOMBSTONE_MS)
save(claim)
return answer('created', claim)
