-- events: give entries of a stream, as append.lua writes it.
--
-- KEYS    1 the stream
-- ARGV    1 the first place, as XRANGE takes it  2 the most entries  3 the most bytes of an entry
-- Returns for each entry its place and the value of its field e; an entry that is larger, or has other fields, is empty

local found, start, left = {}, ARGV[1], tonumber(ARGV[2])
repeat
  local part = redis.call('XRANGE', KEYS[1], start, '+', 'COUNT', math.min(left, 25))
  for _, item in ipairs(part) do
    local pair = item[2]
    local is_ours = pair[1] == 'e' and #pair[2] <= tonumber(ARGV[3])
    found[#found + 1] = {item[1], is_ours and pair[2] or ''}
    start = '(' .. item[1]
  end
  left = left - #part
until #part < 25 or left == 0
return found
