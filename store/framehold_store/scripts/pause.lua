-- pause: pause a tool, resume it, or clear it of what is held against it. In each case the ends of processes that were
-- held against it are forgotten.
--
-- KEYS    1 hash of all tools
-- ARGV    1 tool  2 what follows the version of the pause, empty to resume, '-' to clear the tool alone
--         3 the highest version that the caller knows of this tool  4 the most bytes of a field
-- Returns 1 if the tool was paused before, else 0; and the version that was written

local p, d = field('p:' .. ARGV[1], ARGV[4]), field('d:' .. ARGV[1], ARGV[4])
local fresh = next_version(ARGV[3], p, d)
if ARGV[2] ~= '-' then redis.call('HSET', KEYS[1], 'p:' .. ARGV[1], '[1,' .. fresh .. ARGV[2] .. ']') end
redis.call('HSET', KEYS[1], 'd:' .. ARGV[1], '[1,' .. fresh .. ',[]]')
return {is_paused(p) and 1 or 0, fresh}
