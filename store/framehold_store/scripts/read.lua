-- read: give the record and the journal of a call.
--
-- KEYS    1 record, 2 journal
-- ARGV    none
-- Returns {ok, epoch, record, journal}; {missing, 0}, also for a torn record (one key evicted without the other)

local h = redis.call('HMGET', KEYS[1], 'state', 'epoch', 'n')
if not h[1] then return {'missing', 0} end
local journal = redis.call('LRANGE', KEYS[2], 0, -1)
if (h[1] == 'open' or h[1] == 'released') and #journal ~= tonumber(h[3]) then return {'missing', 0} end
return {'ok', tonumber(h[2]), redis.call('HGETALL', KEYS[1]), journal}
