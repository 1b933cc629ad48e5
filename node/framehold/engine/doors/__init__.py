"""Who may enter this node: which tools need the store, and which are paused.

May import: `engine`, `frame` and what they may import. It knows no MCP SDK and no HTTP server.
"""
