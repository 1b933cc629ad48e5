-- leave: delete the node lease if it still is this incarnation's.
--
-- KEYS    1 node lease
-- ARGV    1-3 as lease.lua says
-- Returns {renewed, 0} whether or not there was one: gone is gone

if boot == ARGV[2] and inc == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[3], KEYS[1])
end
return {'renewed', 0}
