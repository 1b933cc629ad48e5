-- The head of every script that carries a fence. __init__.py puts it in front of these scripts, because a script can't
-- include another one. core/framehold_core/record.py states what it means.
--
-- KEYS  1 record (hash), 2 journal (list); same hash tag
-- ARGV  1 owner  2 inc  3 epoch  4 round  5 n  6 ttl in ms
--       7 the history after the write, '-' where the request appends nothing
--       8 the answers' field 'a:<round>' ('' without answers)  9 '["<digest>",'  10 '[<keys>]]'
--       11 the effects whose results this write records: each 'k:<digest>', or '+k:<digest>' if it had no intent;
--       joined by spaces, '' for none
--       from 12 on: arguments of the script itself
-- Returns 1 for OK under the epoch of the writer, else {verdict, epoch [, record as HGETALL gives it [, journal]]}, or
--       {large, ...} as size.lua says

local R, J = KEYS[1], KEYS[2]
local h = values(R, 'state', 'owner', 'inc', 'epoch', 'round', 'n', 'jh', ARGV[8])

-- A torn record (one key evicted or deleted without the other) counts as missing, as in read and claim. So does one
-- that can't be read. A write that is granted looks only at what it needs, one that is refused at the whole record.
local function is_torn()
  -- guard: a key of another type
  if not h then return true end
  if not (h[1] or h[4]) then return false end
  -- The ordinary write stands where the record stands: its numbers are counts.
  local here = h[4] == ARGV[3] and h[5] == ARGV[4] and h[6] == ARGV[5]
  local counts = here or (is_count(h[4]) and is_count(h[5]) and is_count(h[6]))
  -- guard: numbers that can't be read
  if not counts then return true end
  if h[1] == 'done' or h[1] == 'lost' then return false end
  -- guard: a state that can't be read
  if not (h[1] == 'open' or h[1] == 'released') then return true end
  return length(J) ~= tonumber(h[6])
end

local torn = is_torn()
-- guard: a record or a journal without the other
if torn then
  -- guard: a record of a newer release
  if h and is_newer(redis.call('HGET', R, 'v')) then
    local record, found = fields(R, MAX_RECORD)
    return record and {'fenced', 0, record} or large('record', found, MAX_RECORD)
  end
  h = {}
end

-- the whole record; nil and its size if it is too large. If it can't be read it counts as missing from now on
local function look()
  local record, found = fields(R, MAX_RECORD)
  -- guard: a record that can't be read
  if record and not legible(record) then h, torn = {}, true end
  return record, found
end

local function refuse(verdict)
  if not h[1] then return {verdict, 0} end
  local record, found = look()
  if not record then return large('record', found, MAX_RECORD) end
  if torn then return {verdict == 'changed' and verdict or 'behind', 0} end
  return {verdict, tonumber(h[4]), record}
end

-- nil to go on, else the verdict. A request brings a head, and so `creates`, under epoch 1 and at position 0 alone
local function fence(creates)
  if not h[1] then
    -- guard: whoever may not begin a record
    if creates then return nil end
    return 'behind'
  end
  -- guard: writes to a call that is over
  if h[1] == 'done' or h[1] == 'lost' then return 'fenced' end
  -- guard: another owner, process or epoch
  if h[2] == ARGV[1] and h[3] == ARGV[2] and h[4] == ARGV[3] then
    -- guard: another position
    if h[6] == ARGV[5] then return nil end
    -- guard: a write that was applied, and comes once more
    if h[7] == ARGV[7] then return 'already' end
    return tonumber(h[6]) < tonumber(ARGV[5]) and 'behind' or 'fenced'
  end
  local round, epoch = tonumber(h[5]) - tonumber(ARGV[4]), tonumber(h[4]) - tonumber(ARGV[3])
  return (round < 0 or epoch < 0) and round <= 0 and epoch <= 0 and 'behind' or 'fenced'
end

-- whether other answers stand recorded for that round
local function clashes()
  return h[8] and ARGV[8] ~= '' and string.sub(h[8], 1, #ARGV[9]) ~= ARGV[9]
end

-- whether one of these effects has a result already, or lacks the intent that it had
local function unfit()
  for plus, field in string.gmatch(ARGV[11], '(%+?)(%S+)') do
    local known = h[1] and redis.call('HGET', R, field)
    -- guard: a second result, and one that has lost its intent
    if known == 'r' or (plus == '' and known ~= 'i') then return true end
  end
  return false
end

-- notes in the record that these effects have results
local function done()
  for field in string.gmatch(ARGV[11], '%+?(%S+)') do redis.call('HSET', R, field, 'r') end
end

-- milliseconds on the server's clock
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- appends ARGV[first] and all later ones to the journal; in slices, because Lua's stack is finite
local function push(first)
  for at = first, #ARGV, 4000 do
    redis.call('RPUSH', J, unpack(ARGV, at, math.min(at + 3999, #ARGV)))
  end
end

-- a new record: ARGV[at] counts the values of the head (fields and values in turn) that follow it
local function fresh(at, time)
  -- Only if an old key is left: a script that begins with DEL is never refused for memory, even if the store is full.
  -- guard: what another record left
  if h[1] or torn or length(J) ~= 0 then redis.call('DEL', R, J) end
  redis.call('HSET', R, 'v', '1', 'state', 'open', 'owner', ARGV[1], 'inc', ARGV[2], 'epoch', '1', 'round', '0',
    'attempts', '0', 'created', string.format('%.0f', time), unpack(ARGV, at + 1, at + tonumber(ARGV[at])))
end

-- sets one instant of expiry for both keys: with two TTLs the second key would expire later than the first
local function live(time)
  local expires = string.format('%.0f', time + tonumber(ARGV[6]))
  redis.call('PEXPIREAT', R, expires)
  redis.call('PEXPIREAT', J, expires)
  return expires
end
