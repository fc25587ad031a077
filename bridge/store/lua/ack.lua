-- Ends a message as consumed.
-- KEYS: message
--       (then, for each further message, its record and envelope)
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce copy_gone by
--       (then, for each further message, its id and all from epoch on)
--       epoch, nonce: from the receipt. They refuse an ack of a lease that has ended. epoch '': acks the live
--       copy. 'delivered': acks the live copy if a consumer may have received it. An AMQP consumer takes a copy without
--       a report.
--       copy_gone '1': an AMQP consumer has taken the copy out of the ready queue itself. So the message exists, also
--       if its send is not confirmed. by: who asks, as in _record.lua.
-- Returns: (for each) acked (also when it was acked before) | stale (the lease or the message has ended)
--       | not_leased (it waits for its first delivery, and is not due) | unknown
-- Life: live -> acked (acked)
-- Also: unconfirmed -> acked (acked)
-- Promise: a copy left in the wheel or in the ready queue becomes a ghost, and the record outlives this copy.
local function ack(epoch, nonce, copy_gone, by)
  local r = load()
  local consumed = r and r[STATE] == UNCONFIRMED and copy_gone == '1'
  if not r or (r[STATE] == UNCONFIRMED and not consumed) then return answer('unknown') end
  local fenced = epoch ~= '' and epoch ~= 'delivered'
  if fenced and not named_by(r, epoch, nonce) then return answer('stale', r) end
  if r[STATE] == ACKED then return answer('acked', r) end
  if not (live(r) or consumed) or (fenced and r[STATE] ~= LEASED) then return answer('stale', r) end
  local never = r[STATE] == WAITING and r[ATTEMPTS] == 0 and now < r[DUE]
  if never and epoch == 'delivered' then return answer('not_leased', r) end
  local copy_stays = r[STATE] == READY and copy_gone ~= '1'
  finish(r, by, WAS_ACKED, ACKED, '', copy_stays and TOMBSTONE_MS or RETENTION_MS)
  return answer('acked', r)
end
return for_each(ack)
