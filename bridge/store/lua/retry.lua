-- Names the copy that retries a message after a failed delivery over AMQP.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce next_epoch next_nonce due_ms attempts reason by
--       epoch, nonce: of the copy that came back. attempts: deliveries made so far. by: as in _record.lua.
-- Returns: retried | ghost (the record has moved on, so the new copy is a ghost)
-- Life: ready -> waiting (retried)
-- Also: unconfirmed waiting leased -> waiting (retried)
-- Promise: RabbitMQ confirmed the successor before. A successor that is not named is a ghost for good. Running it twice
-- with the same next_nonce changes the record once.
local r = load()
if not r then return answer('ghost') end
local next_epoch, next_nonce = tonumber(ARGV[8]), tonumber(ARGV[9])
if is(r, next_epoch, next_nonce) then return answer('retried', r) end
if ended(r) or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) then
  refuse(r, next_epoch, next_nonce, tonumber(ARGV[10]))
  return answer('ghost', r)
end
r[EPOCH], r[NONCE], r[ATTEMPTS], r[REASON], r[TERM] = next_epoch, next_nonce, tonumber(ARGV[11]), ARGV[12], nil
note(r, ARGV[13], WAS_RETRIED, tonumber(ARGV[10]) - now, r[REASON])
make_waiting(r, tonumber(ARGV[10]), tonumber(ARGV[10]))
return answer('retried', r)
