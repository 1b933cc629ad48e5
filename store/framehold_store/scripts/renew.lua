-- renew: extend a node lease that still belongs to this incarnation. A stored beat below the last one that the node got
-- means that the store has lost acknowledged writes.
--
-- KEYS    1 node lease
-- ARGV    1-6 as lease.lua says; 7 the last beat that the node got in a reply
-- Returns {renewed | lapsed | taken, beat}; the beat is 0 if no lease is stored

if not boot then return {'lapsed', 0} end
beat = tonumber(beat)
if boot ~= ARGV[2] then return {'taken', beat} end
if inc ~= ARGV[1] or beat < tonumber(ARGV[7]) then return {'lapsed', beat} end
put(beat + 1)
local after = string.find(rest, ',', 1, true)
if string.sub(rest, after + 1, after + #ARGV[4]) ~= ARGV[4] then redis.call('PUBLISH', ARGV[3], KEYS[1]) end
return {'renewed', beat + 1}
