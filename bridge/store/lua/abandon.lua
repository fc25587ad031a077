-- Releases the claim of a send whose publish failed, so that the next send of the id need not wait for it to age.
-- KEYS: message
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce
-- Returns: abandoned | kept (the record is confirmed, or belongs to another send)
-- Promise: the record stays. If the copy was published after all, the record still names it, and the next send of the
-- id finds the message, also one that has ended.
local r = load()
if not r or r[STATE] ~= UNCONFIRMED or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) then
  return answer('kept', r)
end
r[CLAIMED] = 1
save(r)
return answer('abandoned', r)
