"""An MCP client of revision 2026-07-28: the bodies of its requests, its connection, and when it retries a round.

Every load in this distribution uses it: the users of scenarios, the trade-off, and the benchmark.
"""
