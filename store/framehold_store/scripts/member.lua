-- member: put the name of a node on the list of members: the names whose leases a reader looks up.
--
-- KEYS    1 list of members: a sorted set of node ids by the instant, in ms on the server's clock, when their leases
--         end
-- ARGV    1 node id  2 ttl of its lease in ms  3 ms for which a name stays on the list after its lease has ended
-- Returns 1
--
-- The list is a hint, the lease is the truth. They may be in different slots of a Redis Cluster, so no script touches
-- both. Readers skip a name without a lease; a missing name comes back with the next renewal.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - tonumber(ARGV[3])))
return 1
