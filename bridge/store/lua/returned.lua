-- Decides about a copy that came back from its ready queue: rejected over AMQP, over the delivery limit, or expired.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce attempt max_retry due_ms expires_ms created_ms by_ttl by
--       by_ttl '1': RabbitMQ says that the copy's time to live has passed. '2': the same, and the AMQP client has set one
--       that counts from the release, so the record does not have it. by: as in _record.lua.
-- Returns: retry (publish a successor, then run `retry`) | bury (its retries are used up)
--       | delivered (as in lease.lua) | expired | ahead | ghost | another (as in fire.lua)
-- Life: ready -> expired dead (expired)
-- Also: none waiting ready -> ready; none waiting leased -> expired dead (expired); unconfirmed -> expired (expired);
--       unconfirmed ended => ready; unconfirmed ended => expired (expired); ended => dead (expired)
-- Promise: an existing record changes only where the message expires, or where an AMQP client's own copy, of epoch 0,
-- begins a new message under its id. A copy without a record is live, and makes its record.
-- A copy of epoch 0 makes a record with nonce 0; when it comes again, that record is its own.
local epoch, nonce, attempt = math.max(1, tonumber(ARGV[6])), tonumber(ARGV[7]), tonumber(ARGV[8])
local r, own = load(), ARGV[6] == '0'
if r and own then
  if live(r) and r[NONCE] == 0 then
    epoch = r[EPOCH]
  elseif free_for_client(r) then
    epoch = r[EPOCH] + 1
    r = of_client(r, epoch, nonce, tonumber(ARGV[10]), tonumber(ARGV[11]), attempt - 1, tonumber(ARGV[9]))
    note_sent(r, ARGV[14])
    make_ready(r)
  end
end
if r and not own and forgot(r, epoch, tonumber(ARGV[12])) then
  r = in_place_of(r, epoch, nonce, tonumber(ARGV[12]), tonumber(ARGV[10]), tonumber(ARGV[11]), attempt - 1,
    tonumber(ARGV[9]))
  make_ready(r)
elseif not r then
  local make = own and born or found
  r = make(epoch, nonce, tonumber(ARGV[12]), tonumber(ARGV[10]), tonumber(ARGV[11]), attempt - 1,
    tonumber(ARGV[9]))
  if sent_due then note_sent(r, ARGV[14]) end
  make_ready(r)
elseif not own and delivered(r, epoch, nonce) then
  return answer('delivered', r, until_lease_copy(r))
elseif not own and of_another_life(r, epoch, nonce, tonumber(ARGV[12])) then
  return answer('another', r)
elseif not own and of_forgotten(r, epoch, nonce, tonumber(ARGV[12]), 'message') then
  return answer('another', r)
elseif ghost(r, epoch, nonce) then
  if not own and of_lost_time(r, tonumber(ARGV[12])) then return answer('another', r) end
  return answer('ghost', r)
elseif r[EPOCH] < epoch then
  return answer('ahead', r)
end
-- RabbitMQ and Redis have different clocks, so an expiry that RabbitMQ reports counts up to a second early.
local SKEW_MS = 1000
if expired(r) or ARGV[13] == '2' or (ARGV[13] == '1' and r[EXPIRES] > 0 and r[EXPIRES] <= now + SKEW_MS) then
  expire(r, ARGV[14])
  return answer('expired', r)
end
return answer(attempt > r[MAX_RETRY] and 'bury' or 'retry', r)
