-- read: give the record and the journal of a call.
--
-- KEYS    1 record, 2 journal
-- ARGV    1 the most bytes of the journal
-- Returns {ok, epoch, record, journal}: the caller finds out if it can't read the record; {missing, 0}, also for a
--         torn record (one key evicted without the other), and with the reason as record.lua says; {large, ...} as
--         size.lua says

local h = values(KEYS[1], 'state', 'epoch', 'n', 'v')
-- guard: a key of another type
if not h then return {'missing', 0, 'it is no hash'} end
-- guard: a call that is not there
if not h[1] then return {'missing', 0} end
local count, held = length(KEYS[2]), h[1] == 'open' or h[1] == 'released'
-- guard: a record without its journal
if held and is_count(h[3]) and count ~= tonumber(h[3]) and not is_newer(h[4]) then
  return {'missing', 0, count < 0 and 'its journal is no list' or nil}
end
local most = tonumber(ARGV[1])
local record, found = fields(KEYS[1], MAX_RECORD)
-- guard: a record that is too large
if not record then return large('record', found, MAX_RECORD) end
local journal
journal, found = items(KEYS[2], count, most)
-- guard: a journal that is too large
if not journal then return large('journal', found, most) end
return {'ok', is_count(h[2]) and tonumber(h[2]) or 0, record, journal}
