-- result: an effect under `once` has run; record its result.
--
-- KEYS    1 record, 2 journal
-- ARGV    1-10 as fence.lua says (8-10 empty); 11 the field of the key 'k:<digest>'; from 12 on the entries
-- Returns 1; already, behind, fenced, conflict (no open intent for the key) with the record

local verdict = fence(false)
if verdict then return refuse(verdict) end
if redis.call('HGET', R, ARGV[11]) ~= 'i' then return refuse('conflict') end

push(12)
redis.call('HSET', R, 'n', ARGV[5] + #ARGV - 11, 'jh', ARGV[7], 'expires', live(now()), ARGV[11], 'r')
return 1
