"""One entry into a handler: what it asks, what it records, and how it is rebuilt from its journal.

A frame knows the values of core and store. It knows no MCP SDK, no HTTP and no table of calls: `ports` states what it
needs from its node.

May import: core, store, `config`. May be imported by every other package of the node.
"""
