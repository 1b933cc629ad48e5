-- member: put the name of a node on the list of members: the names whose leases a reader looks up.
--
-- KEYS    1 list of members: a sorted set of node ids by the instant, in ms on the server's clock, when their leases
--         end
-- ARGV    1 node id  2 end of its lease in ms since 1970  3 ttl of its lease in ms: a later end counts as this much
--         from now, and one that is over as now  4 ms for which a name stays on the list after its lease has ended
--       5 the most names: of more of them no reader can tell which are nodes, and the list begins anew
-- Returns 1; 0 if something else stood there, which this script has replaced
--
-- The list is a hint, the lease is the truth. They may be in different slots of a Redis Cluster, so no script touches
-- both. Readers skip a name without a lease; a missing name comes back with the next renewal. A name whose lease would
-- end later than any lease can is somebody else's, and goes.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = math.max(now, math.min(tonumber(ARGV[2]), now + tonumber(ARGV[3])))
local added = redis.pcall('ZADD', KEYS[1], string.format('%.0f', ends), ARGV[1])
local replaced
if type(added) == 'table' then
  replaced = string.find(added.err, 'WRONGTYPE', 1, true)
else
  replaced = redis.call('ZCOUNT', KEYS[1], '-inf', '+inf') > tonumber(ARGV[5])
end
if replaced then
  redis.call('DEL', KEYS[1])
  added = redis.pcall('ZADD', KEYS[1], string.format('%.0f', ends), ARGV[1])
end
if type(added) == 'table' then return added end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - tonumber(ARGV[4])))
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + ARGV[3] + ARGV[4]), '+inf')
return replaced and 0 or 1
