-- claim: take over a call whose owner is gone. A call that can't be re-entered is recorded as lost before any client
-- gets that answer.
--
-- KEYS    1 record, 2 journal
-- ARGV    1 epoch, 2 owner, 3 inc as the caller read them; 4 evidence (gone, released, owner)
--         5 new owner  6 its inc  7 its boot  8 '1' if the present code is re-entrant  9 most attempts  10 ttl in ms
--         11 letter of the step: c, or k if kept code will be entered  12 the most bytes of the journal
-- Returns {ok | already | changed, epoch, record, journal}, {lost | stuck, epoch, record}; {missing, 0}, and with the
--         reason as record.lua says; {changed, 0, record} if the record can't be read; {large, ...} as size.lua says.
--         With the last three nothing was written

local R, J = KEYS[1], KEYS[2]
local h = values(R, 'state', 'owner', 'inc', 'epoch', 'round', 'n', 'boot', 'reentrant', 'attempts', 'v')
-- guard: a key of another type
if not h then return {'missing', 0, 'it is no hash'} end
local held, count = h[1] == 'open' or h[1] == 'released', length(J)
local readable = is_count(h[4]) and is_count(h[5]) and is_count(h[6]) and is_count(h[9]) and not is_newer(h[10])
-- guard: a record or a journal without the other
if not h[1] or (held and readable and count ~= tonumber(h[6])) then
  return {'missing', 0, count < 0 and 'its journal is no list' or nil}
end
local epoch, most = tonumber(h[4]), tonumber(ARGV[12])
local record, found = fields(R, MAX_RECORD)
-- guard: a record that is too large
if not record then return large('record', found, MAX_RECORD) end
-- guard: numbers that can't be read
if not readable then return {'changed', 0, record} end
local journal
journal, found = items(J, count, most)
-- guard: a journal that is too large
if not journal then return large('journal', found, most) end

local function whole(verdict) return {verdict, epoch, redis.call('HGETALL', R), journal} end

local function claimable()
  -- guard: a record that has changed since it was read
  if h[4] ~= ARGV[1] or h[2] ~= ARGV[2] or h[3] ~= ARGV[3] then return false end
  -- guard: other evidence than that of a call that was handed off
  if h[1] == 'released' then return ARGV[4] == 'released' end
  -- guard: a call that is over
  if h[1] ~= 'open' then return false end
  -- guard: a claim for oneself of what is another's
  if ARGV[4] == 'owner' then return h[2] == ARGV[5] end
  return ARGV[4] ~= 'released'
end

-- guard: a claim that was applied, and comes once more
if h[1] == 'open' and h[2] == ARGV[5] and h[3] == ARGV[6] and h[7] == ARGV[7] and epoch == tonumber(ARGV[1]) + 1 then
  return whole('already')
end
-- guard: a call that was lost
if h[1] == 'lost' then return {'lost', epoch, redis.call('HGETALL', R)} end
-- guard: whoever has no right to the call
if not claimable() then return whole('changed') end

local clock = redis.call('TIME')
local time = clock[1] * 1000 + math.floor(clock[2] / 1000)
local expires = string.format('%.0f', time + tonumber(ARGV[10]))
-- guard: a handler that is not marked
if h[8] ~= '1' or ARGV[8] ~= '1' then
  redis.call('HSET', R, 'state', 'lost', 'cause', ARGV[4] .. ' after round ' .. h[5], 'expires', expires,
    step('l', h[5], h[4], time, 0, ARGV[5]))
  redis.call('DEL', J)
  redis.call('PEXPIREAT', R, expires)
  return {'lost', epoch, redis.call('HGETALL', R)}
end
-- guard: one attempt too many
if tonumber(h[9]) >= tonumber(ARGV[9]) then return {'stuck', epoch, redis.call('HGETALL', R)} end

-- An owner that released the call, or that drops its frame and enters the call again, has survived the handler.
local survived = ARGV[4] == 'released' or (ARGV[4] == 'owner' and h[7] == ARGV[7])

epoch = epoch + 1
redis.call('HSET', R, 'state', 'open', 'owner', ARGV[5], 'inc', ARGV[6], 'boot', ARGV[7], 'epoch', epoch,
  'attempts', tonumber(h[9]) + (survived and 0 or 1), 'expires', expires,
  step(ARGV[11], h[5], epoch, time, 0, ARGV[5]))
redis.call('PEXPIREAT', R, expires)
redis.call('PEXPIREAT', J, expires)
return whole('ok')
