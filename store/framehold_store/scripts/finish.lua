-- finish: the call has ended. The record keeps its outcome for late duplicates, and its journal is dropped.
--
-- KEYS    1 record, 2 journal
-- ARGV    1-11 as fence.lua says (7 is '-'); 12 the sealed outcome; 13 how the call ended
--         14 the ms that the round ran; 15 the class of the exception that ended it, 16 the place that raised it
-- Returns 1; {already, epoch} for the same outcome of the same writer; behind, fenced, conflict with the record

local function ended_so()
  return redis.call('HSTRLEN', R, 'outcome') == #ARGV[12] and redis.call('HGET', R, 'outcome') == ARGV[12]
end
-- guard: an end that was applied, and comes once more
if h[1] == 'done' and h[2] == ARGV[1] and h[3] == ARGV[2] and h[4] == ARGV[3] and ended_so() then
  return {'already', tonumber(h[4])}
end
local verdict = fence(false)
-- guard: whom the fence refuses
if verdict then return refuse(verdict) end
-- guard: other answers, and effects that do not fit
if clashes() or unfit() then return refuse('conflict') end

local time = now()
redis.call('HSET', R, 'state', 'done', 'outcome', ARGV[12], 'out_round', ARGV[4], 'cause', ARGV[13],
  'expires', live(time), step('f', h[5], ARGV[3], time, ARGV[14], ARGV[1]))
done()
if ARGV[15] ~= '' then redis.call('HSET', R, 'error', ARGV[15], 'place', ARGV[16]) end
if ARGV[8] ~= '' then redis.call('HSET', R, ARGV[8], ARGV[9] .. ARGV[10]) end
redis.call('DEL', J)
return 1
