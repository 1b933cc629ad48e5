-- append: add entries to a stream of the fleet, and drop those that are too many or too old.
--
-- KEYS    1 a stream whose entries have one field, e
-- ARGV    1 most entries  2 ms for which an entry is kept  3.. the entries
-- Returns 1; 0 if something else stood there, which this script has replaced
--
-- No call depends on it. An append whose reply was lost may be sent again: readers skip entries that they know.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function added(entry)
  local reply = redis.pcall('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', 'e', entry)
  return type(reply) == 'table' and reply.err
end
local whole = 1
for n = 3, #ARGV do
  local refused = added(ARGV[n])
  -- Somebody else has written another type there, or an entry at the last place that there is.
  if refused and (string.find(refused, 'WRONGTYPE', 1, true) or string.find(refused, 'exhausted', 1, true)) then
    redis.call('DEL', KEYS[1])
    whole = 0
    refused = added(ARGV[n])
  end
  if refused then return {err = refused} end
end
redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f', now - tonumber(ARGV[2])))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + tonumber(ARGV[2])))
return whole
