-- read: give the record and the journal of a call.
--
-- KEYS    1 record, 2 journal
-- ARGV    1 the most bytes of the journal
-- Returns {ok, epoch, record, journal}; {missing, 0}, also for a torn record (one key evicted without the other);
--         {large, ...} as size.lua says

local h = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'n')
if not h[1] then return {'missing', 0} end
local count = redis.call('LLEN', KEYS[2])
if (h[1] == 'open' or h[1] == 'released') and count ~= tonumber(h[3]) then return {'missing', 0} end
local most = tonumber(ARGV[1])
local record, found = fields(KEYS[1], MAX_RECORD)
if not record then return large('record', found, MAX_RECORD) end
local journal
journal, found = items(KEYS[2], count, most)
if not journal then return large('journal', found, most) end
return {'ok', tonumber(h[2]), record, journal}
