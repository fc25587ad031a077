-- Announces a copy that is about to be published: the record outlives the copy, even if it has ended.
-- KEYS: message
--       (then, for each further message, its record and envelope)
-- ARGV: now id retention_ms tombstone_ms until_ms arrives_ms
--       (then, for each further message, its id and all from arrives_ms on)
--       arrives_ms: when the copy reaches the checkpoint.
-- Returns: (for each) announced | unknown
-- Promise: only LAST and the moment to be forgotten change, and both only to a later one.
local function announce(arrives_ms)
  local r = load()
  if not r then return answer('unknown') end
  outlive(r, tonumber(arrives_ms))
  return answer('announced', r)
end
return for_each(announce)
