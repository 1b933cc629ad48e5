-- register: take the node lease if nobody has it, or an earlier incarnation of the same process.
--
-- KEYS    1 node lease
-- ARGV    1-6 as lease.lua says; 7 the first beat
-- Returns {renewed | taken, beat}

if boot and boot ~= ARGV[2] then return {'taken', tonumber(beat)} end
put(tonumber(ARGV[7]))
redis.call('PUBLISH', ARGV[3], KEYS[1])
return {'renewed', tonumber(ARGV[7])}
