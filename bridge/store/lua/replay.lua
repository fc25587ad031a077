-- Makes a dead letter due again as the copy named here; its attempts start at zero.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce next_epoch next_nonce max_retry created_ms
--       expires_ms due_ms by
--       epoch, nonce: of the dead letter. max_retry, expires_ms: valid from now on.
--       due_ms: as its copy says, so that `fire` knows the copy as the one of this moment.
--       by: who asks, as in _record.lua.
-- Returns: replayed | ghost (the record does not name this dead letter) | another (as in fire.lua, and so is the
--       successor: the checkpoint releases it under an id of its own)
-- Life: dead -> waiting (replayed)
-- Also: none -> waiting (replayed)
-- Promise: RabbitMQ confirmed the successor before. A dead letter without a record makes its record.
local r = load()
local next_epoch, next_nonce = tonumber(ARGV[8]), tonumber(ARGV[9])
if r and is(r, next_epoch, next_nonce) then return answer('replayed', r) end
local epoch, nonce, created = tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[11])
if r and (r[STATE] ~= DEAD or not is(r, epoch, nonce)) then
  if of_another_life(r, epoch, nonce, created) or of_lost_time(r, created)
      or of_forgotten(r, epoch, nonce, created, 'message') then
    return answer('another', r)
  end
  return answer('ghost', r)
end
local due = math.min(tonumber(ARGV[13]), now)
r = r or found(next_epoch, next_nonce, created, due, 0, 0, tonumber(ARGV[10]))
r[EPOCH], r[NONCE], r[ATTEMPTS], r[MAX_RETRY], r[EXPIRES], r[ENDED], r[REASON] = next_epoch, next_nonce, 0,
  tonumber(ARGV[10]), tonumber(ARGV[12]), 0, ''
note(r, ARGV[14], WAS_REPLAYED, 0, '')
make_waiting(r, due, now)
return answer('replayed', r)
