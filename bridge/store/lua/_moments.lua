-- Compares moments of creation, which tell the messages of an id apart.

-- Whether a copy has the moment of creation of a message. A copy from an earlier bridge version names only the end of
-- the second in which its message was created.
local function is_of(moment, created_ms)
  return created_ms == moment or (created_ms % 1000 == 999 and created_ms > moment and created_ms - moment < 1000)
end

-- Whether a copy is of one of the messages whose moments `_record.lua` keeps in KNOWN.
local function is_known(moments, created_ms)
  for at = 1, #moments, 6 do
    local moment = struct.unpack('>I6', moments, at)
    if is_of(moment, created_ms) or (at == 1 and created_ms < moment) then return true end
  end
  return false
end
