-- Ends a message whose retries are used up; its copy is in the topic's dead-letter queue.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce next_epoch next_nonce attempts reason by
--       epoch, nonce: of the copy that failed. next_epoch, next_nonce: of the copy in the dead-letter queue.
--       by: who asks, as in _record.lua.
-- Returns: buried | ghost (the record has moved on, so the copy in the dead-letter queue is a ghost)
-- Life: ready -> dead (buried)
-- Also: unconfirmed waiting leased -> dead (buried)
-- Promise: RabbitMQ confirmed that copy before. The record stays until the dead letter is replayed or dropped.
local r = load()
if not r then return answer('ghost') end
local next_epoch, next_nonce = tonumber(ARGV[8]), tonumber(ARGV[9])
if is(r, next_epoch, next_nonce) then return answer('buried', r) end
if ended(r) or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) then return answer('ghost', r) end
r[EPOCH], r[NONCE], r[ATTEMPTS] = next_epoch, next_nonce, tonumber(ARGV[10])
local reason = ARGV[11] ~= '' and ARGV[11] or (r[REASON] == '' and 'retries used up' or r[REASON])
finish(r, ARGV[12], WAS_BURIED, DEAD, reason, nil)
return answer('buried', r)
