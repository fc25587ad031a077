-- Announces a copy that is about to be published: the record, also once it has ended, outlives it.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget
-- ARGV: now id retention_ms tombstone_ms until_ms arrives_ms
--       arrives_ms: when the copy reaches the checkpoint.
-- Returns: announced | unknown
-- Promise: only LAST and the moment to be forgotten change, and both only to a later one.
local r = load()
if not r then return answer('unknown') end
outlive(r, tonumber(ARGV[6]))
return answer('announced', r)
