-- members: give the names on the list of members, as member.lua says.
--
-- KEYS    1 list of members
-- ARGV    1 the most names  2 the most bytes of a name: a longer one is cut
-- Returns the names

local found = redis.call('ZRANGE', KEYS[1], 0, ARGV[1] - 1)
for place, name in ipairs(found) do found[place] = string.sub(name, 1, tonumber(ARGV[2])) end
return found
