-- The prelude of every script about a message: the clock, and how a record is loaded, saved and indexed.
-- `scripts.py` replaces the named numbers below by their values and leaves out the functions that a script never calls:
-- creating all of them in every call took 2.8 us.
-- KEYS: record envelope waiting ready leased acked expired dead deleted forget labels
--       (a header names them all `message`)
--
-- A record is one msgpack array of the fields below. DUE is stored relative to CREATED, ARRIVES and LAST relative to DUE.
-- So a record without envelope and timeline has at most 44 bytes, and Redis keeps it in one allocation with its own header.
-- CLAIMED is the moment at which a send claimed the id, or 1 after a publish that failed; 0 once the send is confirmed.
-- While it is above 0, no send of the message was answered with success. With a negative nonce, only the send of that
-- nonce was answered.
-- KEPT is the kept envelope: '' for none, the envelope itself up to HERE_MAX bytes, or true where it has its own key.
-- DELIVERED is missing in most records. While a record has it, nobody has published the lease copy that the record names.
-- The message's copy is the delivered one, of the epoch before and of this nonce, which a process has not acknowledged.
-- LABELS is missing in most records: the labels as lines, "customer=42". A missing field before another one is false, as
-- an array has no gaps.
-- REFUSED is missing in most records: the nonces of copies that RabbitMQ has and the record will never name, since the
-- call that was to name each of them was refused. The latest REFUSED_MAX, of six bytes each.
-- BORN is when the first message of the record's life was created. Redis may lose all records, and then an id begins
-- again at epoch 1. A copy that is older than BORN is of a life that this record does not know: it is another message. At
-- epoch 1 BORN is missing, as it is CREATED. At a later epoch it is missing where nobody knows it: an earlier version wrote
-- the record, or a backup has it.
-- TERM is missing in most records. While the message waits, true says that its due moment was given as an instant, so the
-- clock decides; a due moment without TERM counts from its write, as a delay does. While the message is leased, TERM is how
-- many ms LEASE_UNTIL was away when it was written, negative after an extension.
-- FOUND is missing in most records: when the record was made from a copy of the bridge, as Redis had lost the record. The
-- record then knows one message of the lost life: the message of that copy, created at BORN. So a copy of another message
-- of that time is no ghost, whatever its epoch is: the id may have been used again before the loss.
-- KNOWN is missing in most records: the moments of creation of the id's messages that the record has had, the latest
-- KNOWN_MAX, of six bytes each. Every message up to the first moment counts as one of them. If the last is not CREATED, an
-- earlier bridge version has replaced the message, and KNOWN tells nothing.
-- A timeline may follow the array, as a second msgpack value: a string. It is missing while the record itself tells it.
-- Its first byte counts its transitions, and the second one is the length of the last. Each transition is six msgpack
-- values, the oldest first: what, its moment relative to CREATED, the attempts made, a number, who, and a reason.
-- The number: how long a copy was to stay in the wheel, -1 for none; of a release, how late it was; both in ms.
-- An index is a sorted set of ids by due moment. A record is in the one index of its state (state n in KEYS[2 + n]); an
-- unconfirmed record is in none. A record with a moment to be forgotten has it as the expiry of its key, and is also in
-- `forget`, so that its index entry is removed later.
-- Also: unconfirmed waiting ready ended -> none (forgotten)
-- The index of labels is sorted by bytes. Each label of a record that is in an index has an entry there: the label, a line
-- break, the due moment in 13 digits, and the id. A labelled record with a moment to be forgotten has a note there too: an
-- exclamation mark, that moment, the due moment, the id, a line break, and the labels. No label begins as a note does.
local STATE, EPOCH, NONCE, CREATED, DUE, EXPIRES, ATTEMPTS, MAX_RETRY = 1, 2, 3, 4, 5, 6, 7, 8
local ARRIVES, LAST, LEASE_UNTIL, ENDED, FORGET, REASON, CLAIMED, KEPT, DELIVERED = 9, 10, 11, 12, 13, 14, 15, 16, 17
local LABELS, BORN, REFUSED, TERM, FOUND, KNOWN = 18, 19, 20, 21, 22, 23
local UNCONFIRMED, WAITING, READY, LEASED, ACKED, EXPIRED, DEAD, DELETED = 0, 1, 2, 3, 4, 5, 6, 7
local FIRST_INDEX, LAST_INDEX, HERE_MAX = 2, 11, 512
local WAS_SENT, WAS_REPLACED, WAS_MOVED, WAS_RELEASED, WAS_LEASED, WAS_EXTENDED = 1, 2, 3, 4, 5, 6
local WAS_RETURNED, WAS_NACKED, WAS_RETRIED, WAS_BURIED, WAS_REPLAYED = 7, 8, 9, 10, 11
local WAS_ACKED, WAS_EXPIRED, WAS_DELETED, WAS_DROPPED, WAS_RESTORED, WAS_CHANGED = 12, 13, 14, 15, 16, 17
local TIMELINE_MAX, TIMELINE_REASON_MAX, REFUSED_MAX, KNOWN_MAX = 16, 100, 64, 9
-- A clock that is wrong by less is not judged.
local STEP_MS = 1000

local RECORD, ENVELOPE, FORGET_INDEX, LABEL_INDEX = KEYS[1], KEYS[2], KEYS[LAST_INDEX - 1], KEYS[LAST_INDEX]
local ID = ARGV[2]
local RETENTION_MS, TOMBSTONE_MS = tonumber(ARGV[3]), tonumber(ARGV[4])
-- The state, due moment, forget moment and labels of the stored record; had_state is nil where Redis has no record.
local had_state, had_due, had_forget, had_labels
-- The record's timeline. While it is nil, sent_due is when the message was due as it was sent, if nothing else happened.
local timeline, sent_due

-- The clock of Redis is the only one. Tests set the first argument instead.
local function clock()
  if ARGV[1] ~= '' then return tonumber(ARGV[1]) end
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local now = clock()

-- The caller has had its answer by this moment, so nobody expects the change any more.
if ARGV[5] ~= '' and now > tonumber(ARGV[5]) then return { 'late', now, 0 } end

-- Runs one transition for each message of the call, as if each message had its own call. `one` gets the arguments that
-- are the script's own. A further message has its record and envelope behind the keys of the first message, and its id
-- and own arguments behind the arguments of the first.
local function for_each(one)
  local answers = { 'each', now }
  local messages = (#KEYS - LAST_INDEX) / 2 + 1
  local words = (#ARGV - 4) / messages
  for at = 0, messages - 1 do
    if at > 0 then
      RECORD, ENVELOPE = KEYS[LAST_INDEX + 2 * at - 1], KEYS[LAST_INDEX + 2 * at]
      ID = ARGV[5 + at * words]
    end
    answers[3 + at] = one(unpack(ARGV, 6 + at * words, 4 + (at + 1) * words))
  end
  return answers
end

-- Whether nothing has happened to the message of a record without a timeline since it was sent. One that was due at
-- once became ready with its send.
local function untouched(r)
  local state = r[STATE]
  return state == UNCONFIRMED
    or (r[EPOCH] == 1 and (state == WAITING or (state == READY and r[DUE] == r[CREATED])))
end

local function load()
  local stored = redis.call('GET', RECORD)
  if not stored then
    had_state, had_due, had_forget, had_labels, timeline, sent_due = nil, nil, nil, nil, nil, nil
    return nil
  end
  local r
  r, timeline = cmsgpack.unpack(stored)
  local due = r[DUE] + r[CREATED]
  r[DUE], r[ARRIVES], r[LAST] = due, r[ARRIVES] + due, r[LAST] + due
  if not r[LABELS] then r[LABELS] = nil end
  if not r[BORN] then r[BORN] = nil end
  if r[EPOCH] == 1 then r[BORN] = r[CREATED] end
  had_state, had_due, had_forget, had_labels = r[STATE], due, r[FORGET], r[LABELS]
  sent_due = untouched(r) and due or nil
  return r
end

local function packed(r)
  local due, arrives, last = r[DUE], r[ARRIVES], r[LAST]
  local began, labels = r[BORN], r[LABELS]
  r[DUE], r[ARRIVES], r[LAST] = due - r[CREATED], arrives - due, last - due
  if r[EPOCH] == 1 then r[BORN] = nil end
  for at = KNOWN, DELIVERED + 1, -1 do
    if r[at] ~= nil then r[at - 1] = r[at - 1] or false end
  end
  local bytes = timeline and cmsgpack.pack(r, timeline) or cmsgpack.pack(r)
  r[DUE], r[ARRIVES], r[LAST], r[LABELS], r[BORN] = due, arrives, last, labels, began
  return bytes
end

local function answer(verdict, r, extra)
  if not r then return { verdict, now, extra or 0 } end
  local said = { verdict, now, extra or 0, unpack(r, STATE, REASON) }
  if r[LABELS] then said[#said + 1] = r[LABELS] end
  return said
end

-- Writes the values into a record that only searches and answers show, if it has none yet. `given`: the sender's labels as
-- lines, or ''. Returns whether that changes the record.
local function give(r, given)
  if given == '' or r[LABELS] then return false end
  r[LABELS] = given
  return true
end

local function live(r) return r[STATE] >= WAITING and r[STATE] <= LEASED end

local function ended(r) return r[STATE] >= ACKED end

local function is(r, epoch, nonce) return r[EPOCH] == epoch and r[NONCE] == nonce end

-- Whether the record is the one that a caller has seen. `seen`: all that tells two answers about a message apart, in the
-- form of `Record.version`; '' for any. Each change of the content has another epoch and nonce.
local function as_seen(r, seen)
  if seen == '' then return true end
  local numbers = string.rep('%.0f ', 10)
  numbers = string.format(numbers, r[LEASE_UNTIL], r[ENDED], unpack(r, STATE, MAX_RETRY))
  return numbers .. r[REASON] .. '\n' .. (r[LABELS] or '') == seen
end

-- Whether epoch and nonce are those of the record's copy. A receipt of an older bridge has no nonce, and passes ''.
local function named_by(r, epoch, nonce)
  return r[EPOCH] == tonumber(epoch) and (nonce == '' or r[NONCE] == tonumber(nonce))
end

-- Whether the message is in its dead-letter queue. It is not if its time to live has passed.
local function letter(r) return r[STATE] == DEAD and r[FORGET] == 0 end

-- Whether this is the delivered copy of a lease whose lease copy nobody has published. It never has epoch 0.
local function delivered(r, epoch, nonce)
  return r[DELIVERED] == nonce and r[EPOCH] == epoch + 1 and live(r)
end

-- How many ms are left until the lease copy that the record names has to come.
local function until_lease_copy(r)
  return math.max(0, (r[STATE] == LEASED and r[LEASE_UNTIL] or r[DUE]) - now)
end

-- Whether a clock that was ahead of the present one has written when the message is due, if no more than left_ms of its
-- delay are left.
local function written_ahead(r, left_ms) return not r[TERM] and r[DUE] - now > left_ms + STEP_MS end

-- Whether the call that was to name the copy of this nonce was refused. Then no later run of it names the copy either,
-- as the checkpoint may have dropped the copy meanwhile.
local function was_refused(r, nonce)
  if not r[REFUSED] or not nonce then return false end
  nonce = struct.pack('>I6', nonce)
  for at = 1, #r[REFUSED], 6 do
    if string.sub(r[REFUSED], at, at + 5) == nonce then return true end
  end
  return false
end

-- A ghost's record is at a later epoch, names another copy of the same epoch, has ended, or has refused the copy. A copy
-- that is newer than a dead letter is its replay, which the record may name in a moment.
local function ghost(r, epoch, nonce)
  return r[EPOCH] > epoch or (r[EPOCH] == epoch and r[NONCE] ~= nonce) or (r[EPOCH] < epoch and was_refused(r, nonce))
    or (ended(r) and not (letter(r) and r[EPOCH] < epoch))
end

-- Whether the copy belongs to a later message of the id, which Redis has forgotten, for example in a failover. That
-- message could take the id only after the record's message had ended. Call this only for copies of messages that a
-- record has named.
local function forgot(r, epoch, created_ms)
  return ended(r) and r[EPOCH] < epoch and r[CREATED] < created_ms and not is_of(r[CREATED], created_ms)
end

-- Whether the copy belongs to a message that Redis has forgotten, for example in a failover, while the record is of
-- another message. `named`: which copy a record has certainly named before. 'message': this copy, or another copy of
-- its message. 'former': a copy of its message, or of the message that it was to replace.
local function of_forgotten(r, epoch, nonce, created_ms, named)
  if is(r, epoch, nonce) or was_refused(r, nonce) or is_known(known(r), created_ms) then return false end
  local later = created_ms > r[CREATED]
  if later and live(r) and r[EPOCH] < epoch then return false end -- it may be the next one
  return named == 'message' or (named == 'former' and later and r[STATE] ~= DELETED)
end

-- Removes ids from their indexes, the likeliest index first. Each id is in one index at most.
local function unlist(ids)
  local left = #ids
  for _, state in ipairs({ ACKED, READY, DELETED, EXPIRED, DEAD, WAITING, LEASED }) do
    left = left - redis.call('ZREM', KEYS[FIRST_INDEX + state], unpack(ids))
    if left == 0 then return end
  end
end

-- Removes a few forgotten ids from the indexes. Redis expires their keys itself.
local function forget_some()
  local gone = redis.call('ZRANGEBYSCORE', FORGET_INDEX, '-inf', now, 'LIMIT', 0, 4)
  if #gone > 0 then
    unlist(gone)
    redis.call('ZREM', FORGET_INDEX, unpack(gone))
  end
end

-- Moves the record into the index of its new state.
local function relist(state, due, forget)
  local is_to_go = state ~= UNCONFIRMED and forget > 0
  if had_state == state and had_due == due and had_forget == forget and not (is_to_go and forget <= now) then return end
  local stood = had_state and had_state ~= UNCONFIRMED
  if is_to_go then forget_some() end
  if stood and had_state ~= state then redis.call('ZREM', KEYS[FIRST_INDEX + had_state], ID) end
  if state ~= UNCONFIRMED then redis.call('ZADD', KEYS[FIRST_INDEX + state], due, ID) end
  if is_to_go then
    redis.call('ZADD', FORGET_INDEX, forget, ID)
  elseif stood and had_forget > 0 then
    redis.call('ZREM', FORGET_INDEX, ID)
  end
end

-- The entries of a labelled record in the index of labels. forget 0: without the note.
local function label_entries(labels, due, id, forget)
  local entries, place = {}, string.format('%013.0f', due) .. id
  for label in string.gmatch(labels, '[^\n]+') do entries[#entries + 1] = label .. '\n' .. place end
  if forget > 0 then entries[#entries + 1] = string.format('!%013.0f', forget) .. place .. '\n' .. labels end
  return entries
end

-- Moves the labels of a record that has some, or had some. Removes those of a few forgotten records.
local function relabel(state, due, forget, labels)
  local stood, stands = had_labels and had_state ~= UNCONFIRMED, labels and state ~= UNCONFIRMED
  if stood and stands and had_labels == labels and had_due == due and had_forget == forget then return end
  if stood then redis.call('ZREM', LABEL_INDEX, unpack(label_entries(had_labels, had_due, ID, had_forget))) end
  if not stands then return end
  for _, entry in ipairs(label_entries(labels, due, ID, forget)) do redis.call('ZADD', LABEL_INDEX, 0, entry) end
  if forget == 0 then return end
  local until_now = string.format('(!%013.0f', now + 1)
  for _, entry in ipairs(redis.call('ZRANGE', LABEL_INDEX, '[!', until_now, 'BYLEX', 'LIMIT', 0, 4)) do
    local place, gone = string.match(string.sub(entry, 15), '^([^\n]*)\n(.*)$')
    redis.call('ZREM', LABEL_INDEX, entry)
    for label in string.gmatch(gone, '[^\n]+') do redis.call('ZREM', LABEL_INDEX, label .. '\n' .. place) end
  end
end

local function save(r)
  local state, due, forget = r[STATE], r[DUE], r[FORGET]
  if had_labels or r[LABELS] then relabel(state, due, forget, r[LABELS]) end
  relist(state, due, forget)
  if forget > 0 then
    local left = math.max(1, forget - now)
    redis.call('SET', RECORD, packed(r), 'PX', left)
    if r[KEPT] == true then redis.call('PEXPIRE', ENVELOPE, left) end
  else
    redis.call('SET', RECORD, packed(r))
    if r[KEPT] == true and had_forget and had_forget > 0 then redis.call('PERSIST', ENVELOPE) end
  end
  had_state, had_due, had_forget, had_labels = state, due, forget, r[LABELS]
end

-- Fails if the memory of Redis is full. Redis refuses only the first write of a script, and only one that may take memory;
-- after any other write it accepts them all. This one changes nothing.
local function refuse_if_full() redis.call('SETRANGE', RECORD, 0, '') end

-- Lets the script write also if the memory of Redis is full. Returns whether it is. For a message whose copy RabbitMQ has
-- confirmed already: it comes anyway, so its send must not be refused.
local function write_although_full()
  local refused = redis.pcall('SETRANGE', RECORD, 0, '')
  redis.call('ZREM', FORGET_INDEX, '') -- no id is empty, so this changes nothing either
  return type(refused) == 'table'
end

-- Keeps an envelope. The caller saves the record afterwards, also after `free`. A short envelope goes into the record,
-- which saves a key and its expiry.
local function keep(r, envelope)
  if #envelope > HERE_MAX then
    redis.call('SET', ENVELOPE, envelope)
    r[KEPT] = true
  else
    r[KEPT] = envelope
  end
end

local function free(r)
  if r[KEPT] == true then redis.call('DEL', ENVELOPE) end
  r[KEPT] = ''
end

-- A record outlives every copy published for its message.
local function forget_after(r, keep_ms) return math.max(now, r[LAST], r[DUE]) + keep_ms end

-- Adds a transition to the timeline. Beyond TIMELINE_MAX, removes the oldest. Keeps only the last of several extensions
-- of a lease.
local function append(what, ...)
  local transition, count, rest = cmsgpack.pack(what, ...), 0, ''
  if timeline then
    local from, to, last = 3, #timeline, nil
    count, last = string.byte(timeline, 1, 2)
    if what == WAS_EXTENDED and string.byte(timeline, to - last + 1) == WAS_EXTENDED then
      count, to = count - 1, to - last
    elseif count == TIMELINE_MAX then
      count, from = count - 1, cmsgpack.unpack_limit(timeline, 6, 2) + 1
    end
    rest = string.sub(timeline, from, to)
  end
  timeline = string.char(count + 1, #transition) .. rest .. transition
end

-- Notes a transition of the moment `at` in the timeline. The caller saves the record afterwards. `by`: '' if no
-- timelines are kept, '-' for the bridge and for clients without a token, else the id of the token.
local function note(r, by, what, number, reason, at)
  if by == '' then
    timeline = nil -- it would miss this transition
    return
  end
  local created = r[CREATED]
  if sent_due and not timeline and what ~= WAS_SENT then append(WAS_SENT, 0, 0, sent_due - created, '', '') end
  by, reason = by == '-' and '' or by, string.sub(reason, 1, TIMELINE_REASON_MAX)
  append(what, (at or now) - created, r[ATTEMPTS], number, by, reason)
end

-- Notes the send, where the record alone would not tell it.
local function note_sent(r, by)
  note(r, by, WAS_SENT, r[DUE] - r[CREATED], '', r[CREATED])
end

local function finish(r, by, what, state, reason, keep_ms)
  note(r, by, what, 0, reason)
  r[STATE], r[ENDED], r[LEASE_UNTIL], r[DELIVERED], r[TERM] = state, now, 0, nil, nil
  if reason ~= '' then r[REASON] = reason end
  r[FORGET] = keep_ms and forget_after(r, keep_ms) or 0
  save(r)
end

local function make_ready(r)
  r[STATE], r[LEASE_UNTIL], r[DELIVERED] = READY, 0, nil
  -- An AMQP consumer may ack the message without telling the bridge, so a ready record is forgotten some day.
  r[FORGET] = math.max(now + RETENTION_MS, forget_after(r, TOMBSTONE_MS))
  save(r)
end

local function make_waiting(r, due_ms, arrives_ms)
  r[STATE], r[LEASE_UNTIL], r[FORGET], r[DUE] = WAITING, 0, 0, due_ms
  r[ARRIVES], r[LAST] = arrives_ms, math.max(r[LAST], arrives_ms)
  save(r)
end

-- A successor that no record names arrives anyway. The record must still exist then, to show that it is a ghost.
local function outlive(r, arrives_ms)
  if arrives_ms > r[LAST] then
    r[LAST] = arrives_ms
    if r[FORGET] > 0 then r[FORGET] = math.max(r[FORGET], arrives_ms + RETENTION_MS) end
    save(r)
  end
end

-- The call that was to name a copy is refused. RabbitMQ has the copy, so the record outlives it, and notes it if nothing
-- else shows that it is a ghost. Without the note the checkpoint would believe it some day. `another`: the copy is of
-- another message than the record.
local function refuse(r, epoch, nonce, arrives_ms, another)
  write_although_full()
  if (r[EPOCH] < epoch or another) and not was_refused(r, nonce) then
    r[REFUSED] = string.sub((r[REFUSED] or '') .. struct.pack('>I6', nonce), -6 * REFUSED_MAX)
    save(r)
  end
  outlive(r, arrives_ms)
end

-- Refuses to name a copy if the memory of Redis is full. Returns the error, which is the script's answer then, else nil.
local function refused_as_full(r, epoch, nonce, arrives_ms, another)
  local full = redis.pcall('SETRANGE', RECORD, 0, '')
  if type(full) ~= 'table' then return nil end
  refuse(r, epoch, nonce, arrives_ms, another)
  return full
end

-- Whether a consumer may have received the message since it was sent, replaced or replayed. The checkpoint makes a record
-- ready before it releases the copy. While a record waits for its first delivery, its copy reaches consumers only on
-- direct release: such a record is to be forgotten.
local function may_be_received(r)
  if r[STATE] ~= WAITING and r[STATE] ~= UNCONFIRMED then return true end
  return r[ATTEMPTS] > 0 or (r[FORGET] > 0 and r[ARRIVES] <= now)
end

-- Whether the time to live has passed. Then the message ends as expired if it was never delivered, else as dead.
local function expired(r) return r[EXPIRES] > 0 and r[EXPIRES] <= now end

local function expire(r, by)
  finish(r, by, WAS_EXPIRED, r[ATTEMPTS] == 0 and EXPIRED or DEAD, 'time to live passed', RETENTION_MS)
end

local function newborn(epoch, nonce, created_ms, due_ms, expires_ms, attempts, max_retry)
  -- A copy of a later epoch without a record has a past that nobody knows any more.
  timeline, sent_due = nil, epoch == 1 and due_ms or nil
  return { UNCONFIRMED, epoch, nonce, created_ms, due_ms, expires_ms, attempts, max_retry,
    due_ms, due_ms, 0, 0, 0, '', 0, '', [BORN] = created_ms }
end

-- The KNOWN of a message created at created_ms that takes the id of record r. `all`: everything so far counts as known.
local function known_with(r, created_ms, all)
  if r[CREATED] == created_ms then return r[KNOWN] end
  local moments, own = known(r), struct.pack('>I6', created_ms)
  while #moments > (all and 6 or 6 * (KNOWN_MAX - 1)) do
    local first, second = struct.unpack('>I6I6', moments)
    moments = struct.pack('>I6', math.max(first, second)) .. string.sub(moments, 13)
  end
  return moments .. own
end

-- Lets a new message go on with the life of the record r, whose id it takes.
local function go_on_from(r, fresh)
  fresh[KNOWN] = known_with(r, fresh[CREATED])
  fresh[REFUSED], fresh[FOUND] = r[REFUSED], r[FOUND]
  fresh[BORN] = r[BORN] and math.min(r[BORN], fresh[CREATED])
end

-- Whether an AMQP client's own copy, of epoch 0, begins a new message: the id is free, or its message may have been
-- consumed without the bridge. Then the two can't be told apart, and both are delivered.
local function free_for_client(r)
  if r[STATE] == UNCONFIRMED or r[STATE] == READY or ended(r) then return true end
  return r[STATE] == WAITING and r[FORGET] > 0 and r[DUE] <= now
end

-- A new message takes the id of record r. If that message is a dead letter, it gets a new id, which `aside_id`
-- (model/message.py) also makes. The keys that this writes have the hash tag of KEYS.
local function set_aside(r)
  if not letter(r) then return end
  local suffix = string.format('~dead%.0f', r[NONCE])
  redis.call('RENAME', RECORD, RECORD .. suffix)
  if r[KEPT] == true then redis.call('RENAME', ENVELOPE, ENVELOPE .. suffix) end
  redis.call('ZADD', KEYS[FIRST_INDEX + DEAD], r[DUE], ID .. suffix)
  if r[LABELS] then
    for _, entry in ipairs(label_entries(r[LABELS], r[DUE], ID .. suffix, 0)) do redis.call('ZADD', LABEL_INDEX, 0, entry) end
  end
  r[KEPT] = ''
end

-- The record of a new message, in place of record r.
local function in_place_of(r, epoch, nonce, created, due_ms, expires_ms, attempts, max_retry)
  local fresh = newborn(epoch, nonce, created, due_ms, expires_ms, attempts, max_retry)
  fresh[LAST] = math.max(r[LAST], r[DUE], due_ms)
  go_on_from(r, fresh)
  set_aside(r)
  free(r)
  return fresh
end

-- The record of a new message of an AMQP client, in place of record r.
local function of_client(r, epoch, nonce, due_ms, expires_ms, attempts, max_retry)
  -- Under a live id it may be the same copy that comes again, and a send may be about to be confirmed.
  local created = live(r) and r[CREATED] or math.max(now, r[CREATED] + 1)
  local fresh = in_place_of(r, epoch, nonce, created, due_ms, expires_ms, attempts, max_retry)
  sent_due = due_ms
  return fresh
end

-- A new record must be in no index, so entries that a forgotten or lost record left under the id are removed. Every
-- record that is neither waiting, leased nor dead is in `forget`, and so are some of the others.
local function born(...)
  if not had_state then
    if redis.call('ZREM', FORGET_INDEX, ID) == 1 then
      unlist({ ID })
    else
      for _, state in ipairs({ WAITING, LEASED, DEAD }) do redis.call('ZREM', KEYS[FIRST_INDEX + state], ID) end
    end
  end
  return newborn(...)
end

-- The record of a copy whose record Redis has lost.
local function found(...)
  local r = born(...)
  r[FOUND] = now
  return r
end
