-- renew: extend a node lease that still belongs to this incarnation. A stored beat below the last one that the store
-- acknowledged means that the store has lost acknowledged writes. One that is not below this beat was written by
-- another process.
--
-- KEYS    1 node lease
-- ARGV    1-9 as lease.lua says; 10 the last beat that the store acknowledged
-- Returns {renewed | lapsed | taken | astray, now in ms}; if it wrote nothing, then also the stored value

-- guard: a clock that is far off
if astray() then return {'astray', now, stored} end
-- guard: a lease that has ended
if not boot then return {'lapsed', now, stored} end
-- guard: another process under this name
if boot ~= ARGV[2] then return {'taken', now, stored} end
-- guard: another incarnation, a beat that went back, and one that is not above the stored one
if inc ~= ARGV[1] or beat < tonumber(ARGV[10]) or beat >= tonumber(ARGV[4]) then return {'lapsed', now, stored} end
put()
-- guard: news of what has not changed
if string.sub(rest, 1, #ARGV[6]) ~= ARGV[6] then redis.call('PUBLISH', ARGV[3], KEYS[1]) end
return {'renewed', now}
