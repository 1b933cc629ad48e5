-- The head of the scripts that write the hash of all tools: __init__.py puts it in front of these scripts. The hash has
--
--   p:<tool>   [1,<version>,<seconds since 1970>,"<by>","<why>"]: it is paused;  [1,<version>]: it was resumed
--   d:<tool>   [1,<version>,[["<boot>",<ms>],...]]: the ends of processes that are held against it, each with its time
--   m          <id> <ms> <loss in ms> <last seen in ms> <how>: the mark of this store (tools.lua); without a loss the
--              last three are 0 0 none
--
-- KEYS and ARGV belong to the script that follows: the functions get all values as parameters.
-- Returns nothing by itself

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- a field; '?' if it is longer than `most`, which is garbage
local function field(name, most)
  if redis.call('HSTRLEN', KEYS[1], name) > tonumber(most) then return '?' end
  return redis.call('HGET', KEYS[1], name) or ''
end

-- the version of a field and what it has; 0 if it is empty or not there, nothing if it can't be read
local function version(text)
  if text == '' then return 0, {} end
  local readable, found = pcall(cjson.decode, text)
  if not readable or type(found) ~= 'table' or type(found[2]) ~= 'number' then return nil end
  if found[2] >= 0 and found[2] < 1e15 then return found[2], found end
end

-- whether a p: field has a pause; one that can't be read stands
local function is_paused(text)
  local _, found = version(text)
  return not found or #found > 2
end

-- the version after those of some fields, and after one that the caller knows
local function next_version(known, ...)
  local last = tonumber(known)
  for _, text in ipairs({...}) do last = math.max(last, version(text) or 0) end
  return string.format('%.0f', math.max(now, last + 1))
end
