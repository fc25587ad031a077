-- Decides by epochs, nonces and moments of creation which message of its id a copy belongs to.

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

-- Whether a copy is of a life of the id that the record does not know: it is older than the record's first message, or
-- both are the first copies of a life. So the record has not superseded it, whatever their epochs are.
local function of_another_life(r, epoch, nonce, created_ms)
  return (r[BORN] and created_ms < r[BORN]) or (epoch == 1 and r[EPOCH] == 1 and r[NONCE] ~= nonce)
end

-- The moments of KNOWN, which end with the record's own.
local function known(r)
  local own = struct.pack('>I6', r[CREATED])
  return r[KNOWN] and string.sub(r[KNOWN], -6) == own and r[KNOWN] or own
end

-- Whether a copy that seems a ghost by its epoch may belong to a message from before the loss of the id's record, which
-- the record does not know. A clock that was ahead may have written FOUND, so later messages seem older.
local function of_lost_time(r, created_ms)
  if not r[FOUND] or created_ms > r[FOUND] or created_ms == r[BORN] then return false end
  local moments = known(r)
  for at = 1, #moments, 6 do
    if struct.unpack('>I6', moments, at) == created_ms then return false end
  end
  return true
end
