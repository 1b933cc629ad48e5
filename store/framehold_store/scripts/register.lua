-- register: take the node lease if nobody has it, or an earlier incarnation of the same process.
--
-- KEYS    1 node lease
-- ARGV    1-9 as lease.lua says; 10 a stored value that may be replaced, whatever it is: the caller has found that it
--         is no lease of a live process
-- Returns {renewed | taken | lapsed | astray, now in ms}; if it wrote nothing, then also the stored value

-- guard: a clock that is far off
if astray() then return {'astray', now, stored} end
-- guard: what the caller has not seen
if boot and stored ~= ARGV[10] then
  -- guard: the name of a process that lives
  if boot ~= ARGV[2] then return {'taken', now, stored} end
  -- guard: a beat that is not above the stored one
  if inc == ARGV[1] and beat >= tonumber(ARGV[4]) then return {'lapsed', now, stored} end
end
put()
redis.call('PUBLISH', ARGV[3], KEYS[1])
return {'renewed', now}
