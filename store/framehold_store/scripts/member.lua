-- member: put a node's name on the list of names whose leases are worth looking up, until its lease would end.
--
-- KEYS    1 list of members: a sorted set of node ids by the instant, in ms on the server's clock, when their leases
--         end
-- ARGV    1 node id  2 ttl in ms  3 how long, in ms, a name stays after that
-- Returns 1
--
-- The list is a hint, the lease is the truth: they live in different slots of a Redis Cluster, so no script has both.
-- A name without a lease is passed over; a name that is missing comes back with the next renewal.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[2])), ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - tonumber(ARGV[3])))
return 1
