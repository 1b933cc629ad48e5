-- restore: write again what a process knows of tools, where the store has a lower version of it or none. What can't be
-- read stands.
--
-- KEYS    1 hash of all tools
-- ARGV    1 the most bytes of a field, then fields and their texts in turn
-- Returns how many pauses it has written

local pauses = 0
for place = 2, #ARGV, 2 do
  local name, text = ARGV[place], ARGV[place + 1]
  local stored = version(field(name, ARGV[1]))
  -- guard: what is newer, and what can't be read
  if stored and stored < version(text) then
    redis.call('HSET', KEYS[1], name, text)
    if string.sub(name, 1, 2) == 'p:' and is_paused(text) then pauses = pauses + 1 end
  end
end
return pauses
