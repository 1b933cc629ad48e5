"""The calls of one node: the worker loop around core's state machine.

`runtime` feeds events to core's `step`, `performer` performs the effects that come back, `records` writes to the store,
`table` holds the calls, `heartbeat` keeps the node's lease, `eviction` makes room and `drain` leaves.

May import: core, store, the router's shared packages (`fleet`, `models`, `routing`), and `frame`. It knows no MCP SDK
and no HTTP server.
"""
