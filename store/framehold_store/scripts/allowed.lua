-- allowed: which of the commands that a store needs this user may not run. A script that is refused halfway leaves half
-- of its writes, so the store asks before it runs the first script. Runs none of the commands. Servers before 7.0 can't
-- answer: they return no command.
--
-- KEYS    none: users are allowed keys by a prefix, and no slot is touched
-- ARGV    1 a key with the prefix of the namespace, 2 a channel with that prefix
-- Returns the names of the commands that are refused

local key, channel = ARGV[1], ARGV[2]
local needed = {
  {'EVALSHA', 'sha', '1', key}, {'SCRIPT', 'LOAD', ''}, {'SCAN', '0'}, {'TIME'}, {'PING'},
  {'HGET', key, 'f'}, {'HMGET', key, 'f'}, {'HGETALL', key}, {'HEXISTS', key, 'f'}, {'HSET', key, 'f', 'v'},
  {'HLEN', key}, {'HSTRLEN', key, 'f'}, {'STRLEN', key},
  {'LLEN', key}, {'LRANGE', key, '0', '-1'}, {'RPUSH', key, 'v'},
  {'GET', key}, {'MGET', key, key}, {'SET', key, 'v'}, {'DEL', key}, {'PEXPIREAT', key, '1'},
  {'ZADD', key, '1', 'm'}, {'ZRANGE', key, '0', '-1'}, {'ZCOUNT', key, '0', '1'},
  {'ZREMRANGEBYSCORE', key, '0', '1'},
  {'XADD', key, '*', 'e', 'v'}, {'XTRIM', key, 'MAXLEN', '1'}, {'XRANGE', key, '-', '+'},
  {'PUBLISH', channel, ''}, {'SUBSCRIBE', channel},
}
local refused = {}
if redis.acl_check_cmd then
  for _, command in ipairs(needed) do
    if not redis.acl_check_cmd(unpack(command)) then refused[#refused + 1] = command[1] end
  end
end
return refused
