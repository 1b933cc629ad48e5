-- verify: the lease of the owner has lapsed; the owner takes its call again under its new incarnation.
--
-- KEYS    1 record, 2 journal
-- ARGV    1-11 as fence.lua says (7 is '-', 8-11 empty); 12 the new incarnation
-- Returns {ok | already, epoch}; behind, fenced with the record

local epoch = tonumber(ARGV[3]) + 1
-- guard: a verify that was applied, and comes once more
if h[1] == 'open' and h[2] == ARGV[1] and h[3] == ARGV[12] and tonumber(h[4]) == epoch and h[6] == ARGV[5] then
  return {'already', epoch}
end
local verdict = fence(false)
-- guard: whom the fence refuses
if verdict then return refuse(verdict) end

local time = now()
redis.call('HSET', R, 'inc', ARGV[12], 'epoch', epoch, 'expires', live(time),
  step('v', h[5], epoch, time, 0, ARGV[1]))
return {'ok', epoch}
