-- The part every script begins with: the clock, and how a record is loaded, saved and indexed.
--
-- A record is one msgpack array of the fields below. An index is a sorted set of ids by due moment; a record stands in
-- the one index of its state (state n in KEYS[2 + n]), an unconfirmed one in none. A record that has a moment to be
-- forgotten carries it as its key's expiry and stands in `forget`, so that its index entry goes too.
local STATE, EPOCH, NONCE, CREATED, DUE, EXPIRES, ATTEMPTS, MAX_RETRY = 1, 2, 3, 4, 5, 6, 7, 8
local ARRIVES, LAST, LEASE_UNTIL, ENDED, FORGET, REASON, CLAIMED = 9, 10, 11, 12, 13, 14, 15
local UNCONFIRMED, WAITING, READY, LEASED, ACKED, EXPIRED, DEAD, DELETED = 0, 1, 2, 3, 4, 5, 6, 7

local RECORD, ENVELOPE, FIRST_INDEX, FORGET_INDEX = KEYS[1], KEYS[2], 2, KEYS[10]
local ID = ARGV[2]
local RETENTION_MS, TOMBSTONE_MS = tonumber(ARGV[3]), tonumber(ARGV[4])

-- Redis' own clock is the only one; tests set the first argument.
local function clock()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
local now = clock()

local function load()
  local packed = redis.call('GET', RECORD)
  return packed and cmsgpack.unpack(packed) or nil
end

local function answer(verdict, r, extra)
  local out = { verdict, now, extra or 0 }
  if r then
    for field = STATE, REASON do out[field + 3] = r[field] end
  end
  return out
end

local function live(r) return r[STATE] >= WAITING and r[STATE] <= LEASED end
local function ended(r) return r[STATE] >= ACKED end
local function is(r, epoch, nonce) return r[EPOCH] == epoch and r[NONCE] == nonce end

-- Drops from the indexes a few of those whose moment has come; their keys expire by themselves.
local function forget_some()
  local gone = redis.call('ZRANGEBYSCORE', FORGET_INDEX, '-inf', now, 'LIMIT', 0, 4)
  if #gone > 0 then
    for state = WAITING, DELETED do redis.call('ZREM', KEYS[FIRST_INDEX + state], unpack(gone)) end
    redis.call('ZREM', FORGET_INDEX, unpack(gone))
  end
end

-- Writes r and brings the indexes into line; `was` is the record's state and forget moment before (nil: there was none).
local function save(r, was_state, was_forget)
  if was_state and was_state ~= UNCONFIRMED and was_state ~= r[STATE] then
    redis.call('ZREM', KEYS[FIRST_INDEX + was_state], ID)
  end
  if r[STATE] ~= UNCONFIRMED then redis.call('ZADD', KEYS[FIRST_INDEX + r[STATE]], r[DUE], ID) end
  if r[FORGET] > 0 then
    local left = math.max(1, r[FORGET] - now)
    redis.call('SET', RECORD, cmsgpack.pack(r), 'PX', left)
    redis.call('PEXPIRE', ENVELOPE, left)
    if r[STATE] ~= UNCONFIRMED then
      forget_some()
      redis.call('ZADD', FORGET_INDEX, r[FORGET], ID)
    end
  else
    redis.call('SET', RECORD, cmsgpack.pack(r))
    if was_forget and was_forget > 0 then
      redis.call('PERSIST', ENVELOPE)
      redis.call('ZREM', FORGET_INDEX, ID)
    end
  end
end

-- A record outlives every copy published for its message.
local function forget_after(r, keep_ms) return math.max(now, r[LAST], r[DUE]) + keep_ms end

local function finish(r, state, reason, keep_ms)
  local was_state, was_forget = r[STATE], r[FORGET]
  r[STATE], r[ENDED], r[LEASE_UNTIL] = state, now, 0
  if reason ~= '' then r[REASON] = reason end
  r[FORGET] = keep_ms and forget_after(r, keep_ms) or 0
  save(r, was_state, was_forget)
end

local function make_ready(r)
  local was_state, was_forget = r[STATE], r[FORGET]
  r[STATE], r[LEASE_UNTIL] = READY, 0
  -- A consumer over AMQP may end it without a word, so a ready record does not stay for ever.
  r[FORGET] = math.max(now + RETENTION_MS, forget_after(r, TOMBSTONE_MS))
  save(r, was_state, was_forget)
end

local function make_waiting(r, due_ms, arrives_ms)
  local was_state, was_forget = r[STATE], r[FORGET]
  r[STATE], r[LEASE_UNTIL], r[FORGET], r[DUE] = WAITING, 0, 0, due_ms
  r[ARRIVES], r[LAST] = arrives_ms, math.max(r[LAST], arrives_ms)
  save(r, was_state, was_forget)
end

-- A successor that was published in vain arrives all the same, and finds its record there to tell that it is a ghost.
local function outlive(r, arrives_ms)
  if arrives_ms > r[LAST] then
    local was_forget = r[FORGET]
    r[LAST] = arrives_ms
    if was_forget > 0 then r[FORGET] = math.max(was_forget, arrives_ms + RETENTION_MS) end
    save(r, r[STATE], was_forget)
  end
end

-- Its time to live has passed: expired if nobody was handed it, else dead and gone.
local function expired(r) return r[EXPIRES] > 0 and r[EXPIRES] <= now end
local function expire(r)
  finish(r, r[ATTEMPTS] == 0 and EXPIRED or DEAD, 'time to live passed', RETENTION_MS)
end

-- A record that is born stands nowhere: what an ended, forgotten or lost one left in the indexes under its id goes.
local function born(epoch, nonce, created_ms, due_ms, expires_ms, attempts, max_retry)
  for index = FIRST_INDEX + WAITING, #KEYS do redis.call('ZREM', KEYS[index], ID) end
  return { UNCONFIRMED, epoch, nonce, created_ms, due_ms, expires_ms, attempts, max_retry,
    due_ms, due_ms, 0, 0, 0, '', 0 }
end
