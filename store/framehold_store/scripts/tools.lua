-- tools: give the hash of all tools, as pause.lua and died.lua write it.
--
-- KEYS    1 hash of all tools
-- ARGV    1 the most bytes, counted as size.lua says
-- Returns fields and values in turn; a number if they are larger: their size

local flat, found = fields(KEYS[1], tonumber(ARGV[1]))
return flat or found
