-- The head of every script that moves a call: __init__.py puts it in front of them. core/framehold_core/trail.py says
-- what a trail is. Each step has a field of its own, so that it is written without reading those before it, and no
-- value outgrows the 64 bytes up to which Redis keeps a hash compact (with a node's name of 35 characters or more it
-- may, and the record is some times as large).
--
-- KEYS and ARGV are the script's own: it is given what it needs.
--
--   s:<slot>    a step; <slot> is the sum of round and epoch, modulo 64
--   s:<slot>r   a handoff, s:end an end: they raise neither
--
--   letter      p parked, c claimed, v verified, h healed, r released, f finished, l lost
-- Returns the field and its value, '<letter> <round> <epoch> <ms on the server's clock> <ms that the round ran> <node>'

local function step(letter, round, epoch, time, ran, node)
  local slot = (letter == 'f' or letter == 'l') and 'end' or (round + epoch) % 64 .. (letter == 'r' and 'r' or '')
  return 's:' .. slot,
    letter .. ' ' .. round .. ' ' .. epoch .. ' ' .. string.format('%.0f', time) .. ' ' .. ran .. ' ' .. node
end
