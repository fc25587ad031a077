-- Ends a message as consumed.
-- KEYS: message
--       (then, for each further message, its record and envelope)
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce copy_gone created_ms by
--       (then, for each further message, its id and all from epoch on)
--       epoch, nonce: from the receipt. They refuse an ack of a lease that has ended. epoch '': acks the live
--       copy. 'delivered': acks the live copy if a consumer may have received it. An AMQP consumer takes a copy without
--       a report.
--       copy_gone '1': somebody has taken the copy out of RabbitMQ: an AMQP consumer out of the ready queue, or the
--       checkpoint for a target. So the message exists, also if its send is not confirmed. The consumer may have had an
--       earlier message of the id, so the ack of any live copy is one of 'delivered'. With epoch and nonce, the ack is
--       of that copy, leased or not. created_ms: acks only a message created then; '': any.
--       by: who asks, as in _record.lua.
-- Returns: (for each) acked (also when it was acked before) | stale (the lease or the message has ended, or it was
--       created at another moment) | not_leased (no consumer can have received it: it waits for its first delivery)
--       | unknown
-- Life: live -> acked (acked)
-- Also: unconfirmed -> acked (acked)
-- Promise: a copy left in the wheel or in the ready queue becomes a ghost, and the record outlives this copy.
local function ack(epoch, nonce, copy_gone, created_ms, by)
  local r, gone = load(), copy_gone == '1'
  if not r or (r[STATE] == UNCONFIRMED and not gone) then return answer('unknown') end
  local fenced = epoch ~= '' and epoch ~= 'delivered'
  if fenced and not named_by(r, epoch, nonce) then return answer('stale', r) end
  if created_ms ~= '' and not is_of(r[CREATED], tonumber(created_ms)) then return answer('stale', r) end
  if r[STATE] == ACKED then return answer('acked', r) end
  if ended(r) or (fenced and not gone and r[STATE] ~= LEASED) then return answer('stale', r) end
  local asks = epoch == 'delivered' or (gone and not fenced)
  if asks and not may_be_received(r) then return answer('not_leased', r) end
  local copy_stays = r[STATE] == READY and not gone
  finish(r, by, WAS_ACKED, ACKED, '', copy_stays and TOMBSTONE_MS or RETENTION_MS)
  return answer('acked', r)
end
return for_each(ack)
