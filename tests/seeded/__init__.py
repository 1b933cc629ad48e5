"""Real runtimes in a seeded world: what ships, on virtual time, stepped in an order that a seed decides.

loop       an event loop on virtual time: a seed decides which process takes the next step
plan       one schedule: calls, faults, and places at which a process is struck
places     each await of the node, and each message to the store
link       the common store in memory, and the lines to it; `redis`: the scripts of Redis, in an interpreter of Lua
releases   two releases of a handler's code
handlers   programs that handlers carry out, and the ledger of what they did
process    one process of the fleet; `clients`: who makes calls and answers
checks     what must hold
world      plays a schedule; `report` plays many, and tells the story of one that fails
"""
