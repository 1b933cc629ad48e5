-- keep: store the code of a handler in place of what is stored there. An end that is later than the wanted one stays.
--
-- KEYS    1 the code
-- ARGV    1 the sealed code  2 milliseconds to live
-- Returns the end: milliseconds since 1970 on the server's clock
--
-- The value is the end, in 13 digits, and the code after it: PTTL is no command that a store's user has to be allowed.

local now = redis.call('TIME')
local ends = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[2]
-- What somebody else has written there may be of another type: it is replaced.
local found = redis.pcall('GET', KEYS[1])
local before = type(found) == 'string' and tonumber(string.match(found, '^%d%d%d%d%d%d%d%d%d%d%d%d%d'))
-- guard: an end that is sooner
if before and before > ends then ends = before end
local text = string.format('%013d', ends)
redis.call('SET', KEYS[1], text .. ARGV[1], 'PXAT', text)
return text
