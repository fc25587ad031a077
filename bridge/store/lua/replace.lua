-- Replaces a live message by another one under the same id, with its own due moment, body and limits, and no attempts.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget labels
-- ARGV: now id retention_ms tombstone_ms until_ms epoch nonce next_epoch next_nonce created_ms due_ms expires_ms
--       max_retry envelope new_labels by
--       envelope '': there is nothing to keep. new_labels: lines, or ''. by: who asks, as in _record.lua.
-- Returns: replaced | stale (no longer live as this copy) | unknown
-- Promise: RabbitMQ confirmed the successor before. The copies of the replaced message are ghosts, and its lease ends.
-- Running it twice with the same next_nonce changes the record once.
local r = load()
if not r then return answer('unknown') end
local next_epoch, next_nonce, due = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[11])
if is(r, next_epoch, next_nonce) then return answer('replaced', r) end
if not live(r) or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7])) then
  outlive(r, due)
  return answer('stale', r)
end
r[EPOCH], r[NONCE], r[CREATED], r[EXPIRES], r[MAX_RETRY] = next_epoch, next_nonce, tonumber(ARGV[10]),
  tonumber(ARGV[12]), tonumber(ARGV[13])
r[ATTEMPTS], r[REASON], r[CLAIMED], r[DELIVERED], r[LABELS] = 0, '', 0, nil, ARGV[15] ~= '' and ARGV[15] or nil
timeline, sent_due = nil, nil
note(r, ARGV[16], WAS_REPLACED, due - now, '')
free(r)
keep(r, ARGV[14])
make_waiting(r, due, due)
return answer('replaced', r)
