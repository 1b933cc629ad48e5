-- The head of every script that reads the record of a call: __init__.py puts it in front of these scripts, behind
-- size.lua. Whoever may write the store may write anything there. A record that can't be read counts as missing, as a
-- torn one does. One of a newer release is given back, and its reader refuses it by name.
--
-- KEYS and ARGV belong to the script that follows: the functions get all values as parameters.
-- Returns {missing, 0, why} for a key of another type

-- the values of some fields of a hash; nil if the key is of another type
local function values(key, ...)
  local found = redis.pcall('HMGET', key, ...)
  -- guard: a key of another type
  if not found.err then return found end
  return not string.find(found.err, 'WRONGTYPE', 1, true) and redis.call('HMGET', key, ...) or nil
end

-- how many items a list has; -1 if the key is of another type
local function length(key)
  local found = redis.pcall('LLEN', key)
  if type(found) == 'number' then return found end
  return string.find(found.err, 'WRONGTYPE', 1, true) and -1 or redis.call('LLEN', key)
end

local function is_newer(version) return is_count(version) and tonumber(version) > 1 end

-- whether a whole record (fields and values in turn) can be read, or is of a newer release. Its state, epoch, round and
-- n are looked at before
local function legible(flat)
  local function is_utf8(text)
    if not string.find(text, '[\128-\255]') then return true end
    local more = '[\128-\191]'
    for _, valid in ipairs({'[\241-\243]' .. more .. more .. more, '\240[\144-\191]' .. more .. more,
      '\244[\128-\143]' .. more .. more, '[\225-\236\238\239]' .. more .. more, '\224[\160-\191]' .. more,
      '\237[\128-\159]' .. more, '[\194-\223]' .. more}) do
      text = string.gsub(text, valid, ' ')
    end
    return not string.find(text, '[\128-\255]')
  end

  -- whether a text is ["<digest>",[<keys>]]
  local function is_answers(text)
    local good, found = pcall(cjson.decode, text)
    if not good or type(found) ~= 'table' or #found ~= 2 then return false end
    if type(found[1]) ~= 'string' or type(found[2]) ~= 'table' then return false end
    for _, key in pairs(found[2]) do
      if type(key) ~= 'string' then return false end
    end
    return true
  end

  local record = {}
  for place = 1, #flat, 2 do record[flat[place]] = flat[place + 1] end
  -- guard: a record of another release
  if record.v ~= '1' then return is_newer(record.v) end
  for _, name in ipairs({'owner', 'inc', 'boot', 'jh', 'reentrant', 'tool', 'code', 'method', 'target', 'args',
    'principal', 'strategy', 'seal'}) do
    if not record[name] then return false end
  end
  if not is_count(record.attempts) then return false end
  -- The outcome is bytes. The others are there to look at, and so are the steps of the trail.
  for _, name in ipairs({'outcome', 'created', 'expires', 'out_round', 'cause', 'error', 'place'}) do
    record[name] = nil
  end
  for name, value in pairs(record) do
    local kind = string.sub(name, 1, 2)
    if not is_utf8(name) or (kind ~= 's:' and not is_utf8(value)) then return false end
    if kind == 'k:' and value ~= 'i' and value ~= 'r' then return false end
    if kind == 'a:' and not (is_count(string.sub(name, 3)) and is_answers(value)) then return false end
  end
  return true
end
