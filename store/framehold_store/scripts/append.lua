-- append: add entries to a stream of the fleet, and drop those that are too many or too old.
--
-- KEYS    1 a stream whose entries have one field, e
-- ARGV    1 most entries  2 ms for which an entry is kept  3.. the entries
-- Returns the number of entries that were added
--
-- No call depends on it. An append whose reply was lost may be sent again: readers skip entries that they know.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for n = 3, #ARGV do
  redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], '*', 'e', ARGV[n])
end
redis.call('XTRIM', KEYS[1], 'MINID', string.format('%.0f', now - tonumber(ARGV[2])))
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', now + tonumber(ARGV[2])))
return #ARGV - 2
