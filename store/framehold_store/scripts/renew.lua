-- renew: extend a node lease that still is this incarnation's. A lower beat than acknowledged means that the store
-- went back.
--
-- KEYS    1 node lease
-- ARGV    as lease.lua says; 7 the last beat that the node was told
-- Returns {renewed | lapsed | taken, beat}; the beat is 0 where no lease stands

if not boot then return {'lapsed', 0} end
beat = tonumber(beat)
if boot ~= ARGV[2] then return {'taken', beat} end
if inc ~= ARGV[1] or beat < tonumber(ARGV[7]) then return {'lapsed', beat} end
put(beat + 1)
local after = string.find(rest, ',', 1, true)
if string.sub(rest, after + 1, after + #ARGV[4]) ~= ARGV[4] then redis.call('PUBLISH', ARGV[3], KEYS[1]) end
return {'renewed', beat + 1}
