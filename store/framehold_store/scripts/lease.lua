-- The head of register, renew and leave: __init__.py puts it in front of these scripts. core/framehold_core/lease.py
-- states what they mean.
--
-- KEYS  1 node lease: a string, a JSON array, as its node has written it
--         [1,<beat>,"<inc>","<boot>",<end in ms>,"<node>","<address>","<state>","<code>","<stats>","<seal>"]
-- ARGV  1 inc  2 boot  3 channel of membership changes, where the key of the lease is published
--       4 beat  5 end in ms since 1970  6 '"<node>","<address>","<state>","<code>",'  7 '"<stats>","<seal>"]'
--       8 ttl in ms  9 the latest end in ms from now
-- A stored value that is larger than a lease, does not begin like one, or has ended, counts as no lease. A value that
-- this user may not read is an error. Nobody has verified what is stored: the scripts have no key.

local MAX_LEASE = 4096
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local stored = redis.pcall('STRLEN', KEYS[1])
if type(stored) == 'number' then stored = stored <= MAX_LEASE and redis.pcall('GET', KEYS[1]) end
-- guard: an error that is none of the key's type
if type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
local beat, inc, boot, ends, rest
if type(stored) == 'string' then
  beat, inc, boot, ends, rest = string.match(stored, '^%[%d+,(%d+),"([^"]*)","([^"]*)",(%d+),(.*)$')
else
  stored = ''
end
beat = tonumber(beat)
-- guard: a lease that has ended
if boot and tonumber(ends) <= now then boot = nil end

local function astray()
  local left = tonumber(ARGV[5]) - now
  return left <= 0 or left > tonumber(ARGV[9])
end

local function put()
  local until_ms = string.format('%.0f', math.min(tonumber(ARGV[5]), now + tonumber(ARGV[8])))
  redis.call('SET', KEYS[1], '[1,' .. ARGV[4] .. ',"' .. ARGV[1] .. '","' .. ARGV[2] .. '",' .. ARGV[5] .. ','
    .. ARGV[6] .. ARGV[7], 'PXAT', until_ms)
end
