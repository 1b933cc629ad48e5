"""The kinds of server (`MCPServer`, the low-level `Server` and FastMCP), and the life of an attached server.

`host_choice` decides which kind a server is, and gives its `Host`: `MCPServerHost`, `LowLevelHost` or `FastMCPHost`. No
other file decides this. fastmcp is optional: files that import it are imported only for an author who has a FastMCP
server.

May import: `wires`, `sdk`, `telemetry`, `engine`, `frame`.
"""
