-- The head of every script whose reply has what it has read: __init__.py puts it in front of these scripts. Whoever may
-- write the store may write anything of any size there, so each script measures what it gives back.
--
-- KEYS and ARGV belong to the script that follows: the functions get all values as parameters.
-- Returns {large, record | journal, size, the most bytes that are given} in place of a call that is larger
--
-- The size of a list of texts is that of its texts in bytes, and 64 for each: about what a small text takes in the
-- process of the reader.

local MAX_RECORD = 8 * 1024 * 1024

local function size(texts)
  local sum = 64 * #texts
  for place = 1, #texts do
    if texts[place] then sum = sum + #texts[place] end
  end
  return sum
end

local function large(what, found, most) return {'large', what, found, most} end

-- how many bytes a key has as the server counts them, where it says so; 0 else. It counts some bytes for each text, so
-- twice as much as size() is too much for sure. What is so large is not read at all: that would hold the server up
local function rough(key)
  local found = redis.pcall('MEMORY', 'USAGE', key, 'SAMPLES', '0')
  return type(found) == 'number' and math.floor(found / 2) or 0
end

-- the fields and values of a hash; nil and their size if that is more than `most`
local function fields(key, most)
  local found = math.max(128 * redis.call('HLEN', key), rough(key))
  if found > most then return nil, found end
  local flat = redis.call('HGETALL', key)
  found = size(flat)
  if found > most then return nil, found end
  return flat
end

-- the first `count` items of a list; nil and the size of some of them if that is more than `most`
local function items(key, count, most)
  local all, found = {}, math.max(64 * count, count > 0 and rough(key) or 0)
  if found > most then return nil, found end
  found = 0
  for first = 0, count - 1, 256 do
    local part = redis.call('LRANGE', key, first, math.min(first + 255, count - 1))
    found = found + size(part)
    if found > most then return nil, found end
    if first == 0 then all = part else for _, item in ipairs(part) do all[#all + 1] = item end end
  end
  return all
end
