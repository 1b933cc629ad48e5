-- release: give a call up, so that another node can claim it without waiting for the lease of its owner to run out.
--
-- KEYS    1 record, 2 journal
-- ARGV    1-11 as fence.lua says (7 is '-', 8-11 empty)
-- Returns {ok | already, epoch}; behind, fenced with the record

-- guard: a release that was applied, and comes once more
if h[1] == 'released' and h[4] == ARGV[3] and h[6] == ARGV[5] then return {'already', tonumber(h[4])} end
local verdict = fence(false)
-- guard: whom the fence refuses
if verdict then return refuse(verdict) end

local time = now()
redis.call('HSET', R, 'state', 'released', 'owner', '', 'inc', '', 'expires', live(time),
  step('r', h[5], ARGV[3], time, 0, ARGV[1]))
return {'ok', tonumber(h[4])}
