-- tools: give the hash of all tools, and look whether the store has lost something since the caller read it last: its
-- mark has another id, or a lower time. The mark is written by a caller that has read it before, each 10 s at most: one
-- that has just begun would hide a loss from the others. A store that takes no write is read all the same.
--
-- KEYS    1 hash of all tools
-- ARGV    1 the most bytes, counted as size.lua says
--         2 the id of the mark that the caller has read last, empty if none  3 the time of that mark
-- Returns fields and values in turn, the mark, and 1 if this caller is the first to find a loss; a number if the fields
--         are larger: their size

local BEAT = 10000
local length = redis.pcall('HLEN', KEYS[1])
if type(length) == 'table' and string.find(length.err, 'WRONGTYPE', 1, true) then redis.call('DEL', KEYS[1]) end
local flat, found = fields(KEYS[1], tonumber(ARGV[1]))
if not flat then return found end
local text, first = field('m', 256), 0
local id, at, lost, seen, how = string.match(text, '^(%x+) (%d+) (%d+) (%d+) (%a+)$')
-- guard: a mark that no process writes
if not (is_count(at) and is_count(lost) and is_count(seen)) then id, at, lost, seen, how = nil end
local known, last = ARGV[2], tonumber(ARGV[3])
at = tonumber(at) or 0
-- guard: a store that has lost nothing, and a loss that is known
if known ~= '' and (id ~= known or at < last) and (tonumber(lost) or 0) <= last then
  lost, seen, how, first = string.format('%.0f', now), ARGV[3], id == known and 'older' or 'emptied', 1
end
if not id or first == 1 or (known ~= '' and now - at >= BEAT) then
  id = id or string.format('%x%05x', time[1], time[2])
  local mark = table.concat({id, string.format('%.0f', now), lost or '0', seen or '0', how or 'none'}, ' ')
  local reply = redis.pcall('HSET', KEYS[1], 'm', mark)
  if type(reply) == 'table' and reply.err then first = 0 else text = mark end
end
return {flat, text, first}
