-- result: record what the handler has learned: the pending answers first, then values and the results of effects.
--
-- KEYS    1 record, 2 journal
-- ARGV    1-11 as fence.lua says; 12 the number of values of the head (0 or all), then these values, then the entries
-- Returns 1; already, behind, fenced, conflict with the record

local verdict = fence(ARGV[12] ~= '0')
-- guard: whom the fence refuses
if verdict then return refuse(verdict) end
-- guard: other answers, and effects that do not fit
if clashes() or unfit() then return refuse('conflict') end

local time = now()
local at = 12 + tonumber(ARGV[12])
if not h[1] then fresh(12, time) end
push(at + 1)
done()
redis.call('HSET', R, 'n', ARGV[5] + #ARGV - at, 'jh', ARGV[7], 'expires', live(time))
if ARGV[8] ~= '' then redis.call('HSET', R, ARGV[8], ARGV[9] .. ARGV[10]) end
return 1
