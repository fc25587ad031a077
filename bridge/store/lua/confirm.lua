-- Makes a claimed record stand: RabbitMQ has confirmed its copy.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget
-- ARGV: now id retention_ms tombstone_ms epoch nonce created_ms ready direct envelope
--       ready '1': the copy was published straight to its ready queue. direct '1': it reaches it with no checkpoint, so
--       the bridge may never hear of it again. envelope '': nothing to keep.
-- Returns: confirmed | superseded (another send took the id over) | missing (the record is gone: nothing was promised)
-- Promise: changes no state but unconfirmed; a copy that was faster than its confirmation keeps its later state.
local r = load()
if not r then return answer('missing') end
local mine = is(r, tonumber(ARGV[5]), tonumber(ARGV[6]))
if r[CREATED] ~= tonumber(ARGV[7]) or (r[STATE] == UNCONFIRMED and not mine) then return answer('superseded', r) end
if ARGV[10] ~= '' and r[KEPT] == '' then
  keep(r, ARGV[10])
  if r[STATE] ~= UNCONFIRMED then save(r) end
end
if r[STATE] == UNCONFIRMED then
  r[CLAIMED] = 0
  if ARGV[8] == '1' then
    make_ready(r)
  elseif ARGV[9] == '1' then
    r[STATE] = WAITING
    save(r)
  else
    make_waiting(r, r[DUE], r[ARRIVES])
  end
end
return answer('confirmed', r)
