-- finish: the call has ended. The record keeps its outcome for late duplicates, and its journal is dropped.
--
-- KEYS    1 record, 2 journal
-- ARGV    1-10 as fence.lua says (7 is '-'); 11 the sealed outcome; 12 how the call ended
--         13 the ms that the round ran; 14 the class of the exception that ended it, 15 the place that raised it
-- Returns 1; {already, epoch} for the same outcome of the same writer; behind, fenced, conflict with the record

if h[1] == 'done' and h[2] == ARGV[1] and h[3] == ARGV[2] and h[4] == ARGV[3]
  and redis.call('HGET', R, 'outcome') == ARGV[11] then
  return {'already', tonumber(h[4])}
end
local verdict = fence(false)
if verdict then return refuse(verdict) end
if clashes() then return refuse('conflict') end

local time = now()
redis.call('HSET', R, 'state', 'done', 'outcome', ARGV[11], 'out_round', ARGV[4], 'cause', ARGV[12],
  'expires', live(time), step('f', h[5], ARGV[3], time, ARGV[13], ARGV[1]))
if ARGV[14] ~= '' then redis.call('HSET', R, 'error', ARGV[14], 'place', ARGV[15]) end
if ARGV[8] ~= '' then redis.call('HSET', R, ARGV[8], ARGV[9] .. ARGV[10]) end
redis.call('DEL', J)
return 1
