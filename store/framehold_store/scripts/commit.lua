-- commit: park the call. The answers and the questions of the round become durable, and the round number goes up.
--
-- KEYS    1 record, 2 journal
-- ARGV    1-11 as fence.lua says; 12 the number of values of the head (0 or all), then these values, then the ms that
--         the round ran, then the entries
-- Returns 1; already, behind, fenced, conflict with the record

local verdict = fence(ARGV[12] ~= '0')
-- guard: whom the fence refuses
if verdict then return refuse(verdict) end
-- guard: another round
if h[5] and h[5] ~= ARGV[4] then return refuse('fenced') end
-- guard: other answers, and effects that do not fit
if clashes() or unfit() then return refuse('conflict') end

local time = now()
local at = 13 + tonumber(ARGV[12])
if not h[1] then fresh(12, time) end
push(at + 1)
done()
local n, round = ARGV[5] + #ARGV - at, ARGV[4] + 1
local expires = live(time)
local slot, line = step('p', round, ARGV[3], time, ARGV[at], ARGV[1])
if ARGV[8] == '' then
  redis.call('HSET', R, 'round', round, 'n', n, 'jh', ARGV[7], 'attempts', '0', 'expires', expires,
    slot, line)
else
  redis.call('HSET', R, 'round', round, 'n', n, 'jh', ARGV[7], 'attempts', '0', 'expires', expires,
    slot, line, ARGV[8], ARGV[9] .. ARGV[10])
end
return 1
