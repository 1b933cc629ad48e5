-- register: take the node lease if nobody has it.
--
-- KEYS    1 node lease
-- ARGV    1-6 as lease.lua says; 7 the first beat
-- Returns {renewed | taken, beat}

if boot and (inc ~= ARGV[1] or boot ~= ARGV[2]) then return {'taken', tonumber(beat)} end
put(tonumber(ARGV[7]))
redis.call('PUBLISH', ARGV[3], KEYS[1])
return {'renewed', tonumber(ARGV[7])}
