-- leave: delete the node lease if it still belongs to this incarnation (`Store.unregister`).
--
-- KEYS    1 node lease
-- ARGV    1-3 as lease.lua says
-- Returns 1 if it deleted the lease, else 0: to delete it twice is no error

-- guard: the lease of another process
if boot == ARGV[2] and inc == ARGV[1] then
  redis.call('DEL', KEYS[1])
  redis.call('PUBLISH', ARGV[3], KEYS[1])
  return 1
end
return 0
