-- The head of scripts that read counts and times: __init__.py puts it in front of these scripts. Whoever may write the
-- store may write any number there.
--
-- KEYS and ARGV belong to the script that follows: the functions get all values as parameters.
-- Returns nothing by itself

-- the end of the year 9999 in ms since 1970: LATEST_MS of codec.py
local LATEST = 253402300799999

local function is_count(text)
  return text and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) <= LATEST
end
