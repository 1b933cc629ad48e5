"""The calls of one node: the loop around core's state machine.

`runtime` takes requests in, `loop` feeds events to core's `step`, `performer` performs the effects that come back,
`records` writes to the store, `table` holds the calls, `heartbeat` keeps the node's lease, `doors` decides who may
enter, `eviction` makes room and `drain` leaves.

May import: core, store, fleet, `code` and `frame`. It knows no MCP SDK and no HTTP server.
"""
