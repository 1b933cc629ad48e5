-- heal: a live frame writes its whole journal again, after the store has lost acknowledged writes.
--
-- KEYS    1 record, 2 journal
-- ARGV    1-11 as fence.lua says (7 is '-', 8-11 empty)
--         12 the number of values of the head, then these values
--         then '1' and the epoch, owner and inc of the record as read, or '0' and three empty values if it was missing
--         then the history of the whole journal
--         then the number of values of the answers and intents, then these values (fields and values in turn)
--         then all entries
-- Returns {ok | already, epoch}; changed, fenced with the record

local at = 13 + tonumber(ARGV[12])
local jh = ARGV[at + 4]
local answers = tonumber(ARGV[at + 5])
local first = at + 6 + answers
local count = #ARGV - first + 1

-- guard: a heal that was applied, and comes once more
if h[1] == 'open' and h[2] == ARGV[1] and h[3] == ARGV[2] and h[7] == jh and tonumber(h[4]) > tonumber(ARGV[3]) then
  return {'already', tonumber(h[4])}
end
-- guard: a record that can't be read
if ARGV[at] == '0' and h[1] then look() end
-- guard: a record that has come or gone since it was read
if (ARGV[at] == '1') ~= (h[1] and true or false) then return refuse('changed') end
-- guard: a record that has changed since it was read
if h[1] and (h[4] ~= ARGV[at + 1] or h[2] ~= ARGV[at + 2] or h[3] ~= ARGV[at + 3]) then return refuse('changed') end
local verdict = fence(false)
-- guard: whoever is not behind the record
if verdict ~= 'behind' then return refuse(verdict or 'changed') end

local time = now()
local epoch = tonumber(ARGV[3]) + 1
local kept = {'attempts', '0', 'created', string.format('%.0f', time)}
local flat, found = {}, nil
if h[1] then flat, found = fields(R, MAX_RECORD) end
-- guard: a record that is too large
if not flat then return large('record', found, MAX_RECORD) end
for place = 1, #flat, 2 do
  local name = flat[place]
  if name == 'attempts' or name == 'created' or string.sub(name, 1, 2) == 's:' then
    kept[#kept + 1], kept[#kept + 2] = name, flat[place + 1]
  end
end
fresh(12, time)
push(first)
redis.call('HSET', R, unpack(kept))
redis.call('HSET', R, 'epoch', epoch, 'round', ARGV[4], 'n', count, 'jh', jh, 'expires', live(time),
  step('h', ARGV[4], epoch, time, 0, ARGV[1]))
for pair = at + 6, at + 5 + answers, 2 do redis.call('HSET', R, ARGV[pair], ARGV[pair + 1]) end
return {'ok', epoch}
