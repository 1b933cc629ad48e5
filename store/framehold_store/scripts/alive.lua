-- alive: how many names stand on the list of members whose leases have not ended.
--
-- KEYS    1 list of members, as member.lua says
-- ARGV    none
-- Returns the number; who gives its lease back has its name's instant set to now, by member.lua
--
-- It costs the same for ten nodes and for a thousand: whoever has read the leases, and counts as many of them as this
-- says, need not read them again to learn that one has run out.

local time = redis.call('TIME')
return redis.call('ZCOUNT', KEYS[1], string.format('(%.0f', time[1] * 1000 + math.floor(time[2] / 1000)), '+inf')
