-- strings: give the values of some keys.
--
-- KEYS    the keys, 1,000 at most; in a Redis Cluster all in one slot
-- ARGV    1 the most bytes of a value
-- Returns for each key its value, nothing if there is none, or a number in its place: 0 if it is of another type, else
--         how many bytes it has, which are too many. Then the time on the server's clock, in ms since 1970. A value
--         that this user may not read is an error

local most, found, short = tonumber(ARGV[1]), {}, {}
for place, key in ipairs(KEYS) do
  local length = redis.pcall('STRLEN', key)
  if type(length) == 'table' then
    if not string.find(length.err, 'WRONGTYPE', 1, true) then return length end
    found[place] = 0
  elseif length > most then
    found[place] = length
  else
    short[#short + 1] = key
  end
end
local values, next = #short > 0 and redis.call('MGET', unpack(short)) or {}, 0
for place = 1, #KEYS do
  if not found[place] then
    next = next + 1
    found[place] = values[next]
  end
end
local time = redis.call('TIME')
found[#KEYS + 1] = time[1] * 1000 + math.floor(time[2] / 1000)
return found
