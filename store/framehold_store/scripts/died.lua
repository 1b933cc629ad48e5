-- died: a process ended that ran a call of a tool, and a process before it had ended in the same round. Pauses the
-- tool if too many have (framehold_core.pauses).
--
-- KEYS    1 hash of all tools
-- ARGV    1 tool  2 boot of the process  3 ms for which an end counts  4 how many processes a tool may end
--         5 who pauses  6 why, for people  7 the highest version that the caller knows of this tool
--         8 the most bytes of a field: a longer one is garbage
-- Returns the pause of the tool as JSON, empty if it is not paused; and 1 if this script paused it

local p, d = field('p:' .. ARGV[1], ARGV[8]), field('d:' .. ARGV[1], ARGV[8])
local fresh = next_version(ARGV[7], p, d)
local _, held = version(d)
local deaths, kept, known = held and held[3], {}, false
for _, death in ipairs(type(deaths) == 'table' and deaths or {}) do
  local boot, at = nil, nil
  if type(death) == 'table' then boot, at = death[1], tonumber(death[2]) end
  -- guard: what can't be read, and what is over
  if type(boot) == 'string' and at and at <= LATEST and at > now - tonumber(ARGV[3]) then
    kept[#kept + 1] = {boot, at}
    known = known or boot == ARGV[2]
  end
end
-- guard: the same process twice
if not known then kept[#kept + 1] = {ARGV[2], now} end
redis.call('HSET', KEYS[1], 'd:' .. ARGV[1], '[1,' .. fresh .. ',' .. cjson.encode(kept) .. ']')
-- guard: a tool that is paused
if is_paused(p) then return {p, 0} end
-- guard: too few ends
if #kept + 1 < tonumber(ARGV[4]) then return {'', 0} end
local words = string.sub(cjson.encode({ARGV[5], ARGV[6]}), 2, -2)
p = '[1,' .. fresh .. ',' .. string.format('%.0f', math.floor(now / 1000)) .. ',' .. words .. ']'
redis.call('HSET', KEYS[1], 'p:' .. ARGV[1], p)
return {p, 1}
