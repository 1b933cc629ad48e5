-- summary: give some fields of some records.
--
-- KEYS    the records; in a Redis Cluster all in one slot
-- ARGV    1 the most bytes of the fields of a record, counted as size.lua says  2.. the fields
-- Returns for each record their values, nothing for each that is missing; a number in place of a record whose fields
--         are larger, or that is none: their size, or 0

local most, rows = tonumber(ARGV[1]), {}
for place, key in ipairs(KEYS) do
  local row = redis.pcall('HMGET', key, unpack(ARGV, 2))
  local found = row.err and 0 or size(row)
  if row.err and not string.find(row.err, 'WRONGTYPE', 1, true) then return row end
  rows[place] = (row.err or found > most) and found or row
end
return rows
