-- keys: one step of a walk over the keys of this server.
--
-- KEYS    none: it gives their names, and no slot is touched
-- ARGV    1 cursor  2 pattern  3 about how many keys are looked at  4 the most bytes of a key
-- Returns the next cursor, the keys that fit the pattern, and how many of them were left out because they are longer

local step, found, left_out = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3]), {}, 0
for _, key in ipairs(step[2]) do
  if #key <= tonumber(ARGV[4]) then found[#found + 1] = key else left_out = left_out + 1 end
end
return {step[1], found, left_out}
