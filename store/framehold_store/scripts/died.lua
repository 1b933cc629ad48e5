-- died: a process ended that ran a call of a tool, and a process before it had ended in the same round. Pauses the
-- tool if too many have (framehold_core.pauses).
--
-- KEYS    1 hash of all tools
-- ARGV    1 tool  2 boot of the process  3 ms for which an end counts  4 how many processes a tool may end
--         5 who pauses  6 why, for people  7 the most bytes of a field: a longer one is garbage
-- Returns the pause of the tool as JSON, empty if it is not paused; and 1 if this script paused it

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function field(name)
  if redis.call('HSTRLEN', KEYS[1], name) > tonumber(ARGV[7]) then return '?' end
  return redis.call('HGET', KEYS[1], name)
end
local readable, deaths = pcall(cjson.decode, field('d:' .. ARGV[1]) or '[]')
if not readable or type(deaths) ~= 'table' then deaths = {} end
local kept, known = {}, false
for _, death in ipairs(deaths) do
  if type(death) == 'table' and tonumber(death[2]) and tonumber(death[2]) > now - tonumber(ARGV[3]) then
    kept[#kept + 1] = death
    known = known or death[1] == ARGV[2]
  end
end
if not known then kept[#kept + 1] = {ARGV[2], now} end
redis.call('HSET', KEYS[1], 'd:' .. ARGV[1], cjson.encode(kept))
local pause = field('p:' .. ARGV[1])
if pause and pause ~= '' then return {pause, 0} end
if #kept + 1 < tonumber(ARGV[4]) then return {'', 0} end
pause = cjson.encode({1, math.floor(now / 1000), ARGV[5], ARGV[6]})
redis.call('HSET', KEYS[1], 'p:' .. ARGV[1], pause)
return {pause, 1}
