-- intent: an effect under `once` is about to run. The pending answers are recorded first, then the intent.
--
-- KEYS    1 record, 2 journal
-- ARGV    1-11 as fence.lua says; 12 the number of values of the head (0 or all), then these values, then the field of
--         the key 'k:<digest>', then the entries
-- Returns 1; already, behind, fenced, conflict with the record

local verdict = fence(ARGV[12] ~= '0')
-- guard: whom the fence refuses
if verdict then return refuse(verdict) end
local at = 13 + tonumber(ARGV[12])
-- guard: other answers, effects that do not fit, and a second intent
if clashes() or unfit() or (h[1] and redis.call('HEXISTS', R, ARGV[at]) == 1) then return refuse('conflict') end

local time = now()
if not h[1] then fresh(12, time) end
push(at + 1)
done()
redis.call('HSET', R, 'n', ARGV[5] + #ARGV - at, 'jh', ARGV[7], 'expires', live(time), ARGV[at], 'i')
if ARGV[8] ~= '' then redis.call('HSET', R, ARGV[8], ARGV[9] .. ARGV[10]) end
return 1
