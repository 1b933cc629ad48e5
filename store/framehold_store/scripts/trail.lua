-- The head of every script that moves a call: __init__.py puts it in front of these scripts. What a trail is, says
-- core/framehold_core/trail.py. Each step has a field of its own, so that it is written without reading the earlier
-- steps, and so that no value is longer than 64 bytes: up to that length Redis keeps a hash compact. With a node name
-- of 35 characters or more a value may be longer, and then the record takes several times the memory.
--
-- KEYS and ARGV belong to the script that follows: `step` gets all values as parameters.
--
--   s:<slot>    a step; <slot> is the sum of round and epoch, modulo 64
--   s:<slot>r   a handoff, s:end an end: these raise neither round nor epoch
--
--   letter      p parked, c claimed, k claimed and kept code goes on, v verified, h healed, r released, f finished,
--               l lost
-- Returns the field and its value, '<letter> <round> <epoch> <ms on the server's clock> <ms that the round ran> <node>'

local function step(letter, round, epoch, time, ran, node)
  local slot = (letter == 'f' or letter == 'l') and 'end' or (round + epoch) % 64 .. (letter == 'r' and 'r' or '')
  return 's:' .. slot,
    letter .. ' ' .. round .. ' ' .. epoch .. ' ' .. string.format('%.0f', time) .. ' ' .. ran .. ' ' .. node
end
