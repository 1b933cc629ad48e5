-- alive: count the names on the list of members whose leases have not ended.
--
-- KEYS    1 list of members, as member.lua says
-- ARGV    none
-- Returns the number. A node that gives its lease back sets its instant on the list to now (member.lua), so it is not
--         counted
--
-- The cost does not grow with the number of nodes. A reader that has read all leases compares its number with this one;
-- if they are equal, no lease has run out, and the reader need not read the leases again.

local time = redis.call('TIME')
return redis.call('ZCOUNT', KEYS[1], string.format('(%.0f', time[1] * 1000 + math.floor(time[2] / 1000)), '+inf')
