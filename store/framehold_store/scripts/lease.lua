-- The head of register, renew and leave: __init__.py puts it in front of these scripts. core/framehold_core/lease.py
-- states what they mean.
--
-- KEYS  1 node lease: a string, a JSON array
--         [1,<beat>,"<inc>","<boot>",<expires in ms>,"<node>","<address>","<state>","<code>","<stats>"]
--         whose first four values keep their places in every later format, so that all releases can read each other's
-- ARGV  1 inc  2 boot  3 channel of membership changes, where the key of the lease is published
--       4 '"<node>","<address>","<state>","<code>",'  5 '"<stats>"]'  6 ttl in ms  7 a beat
-- A stored value that is larger than a lease, or does not begin like one, counts as no lease. A value that this user
-- may not read is an error.

local MAX_LEASE = 4096
local stored = redis.pcall('STRLEN', KEYS[1])
if type(stored) == 'number' then stored = stored <= MAX_LEASE and redis.pcall('GET', KEYS[1]) end
if type(stored) == 'table' and stored.err and not string.find(stored.err, 'WRONGTYPE', 1, true) then return stored end
local beat, inc, boot, rest
if type(stored) == 'string' then
  beat, inc, boot, rest = string.match(stored, '^%[%d+,(%d+),"([^"]*)","([^"]*)",(.*)$')
end

local function put(number)
  local time = redis.call('TIME')
  local expires = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[6]))
  redis.call('SET', KEYS[1], '[1,' .. string.format('%.0f', number) .. ',"' .. ARGV[1] .. '","' .. ARGV[2] .. '",'
    .. expires .. ',' .. ARGV[4] .. ARGV[5], 'PXAT', expires)
end
