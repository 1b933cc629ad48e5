-- pause: pause a tool, or resume it. In both cases the ends of processes that were held against it are forgotten.
--
-- KEYS    1 hash of all tools
-- ARGV    1 tool  2 the pause as JSON, empty to resume
-- Returns how many bytes the pause had that was stored before: 0 if there was none

local before = redis.call('HSTRLEN', KEYS[1], 'p:' .. ARGV[1])
redis.call('HSET', KEYS[1], 'p:' .. ARGV[1], ARGV[2], 'd:' .. ARGV[1], '')
return before
