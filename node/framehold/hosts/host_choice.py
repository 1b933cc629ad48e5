"""Decides which kind of server an author has. No other file decides this."""

from __future__ import annotations

import sys
from typing import Any

from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette

from .attached import Attached
from .host import Host
from .lowlevel_host import LowLevelHost
from .mcpserver_host import MCPServerHost


def is_server(value: Any) -> bool:
    """Whether `value` is a server that `host_of` takes."""
    return isinstance(value, MCPServer | Server) or _fastmcp_of(value) is not None


def host_of(server: Any) -> Host:
    """The host of an MCPServer, a low-level Server or a FastMCP server. For the low-level server inside a FastMCP
    server it is the host of the FastMCP server.

    Raises:
        TypeError: `server` is none of these.
        ConfigError: the server's library has a release whose private parts are elsewhere.
    """
    if isinstance(server, MCPServer):
        return MCPServerHost(server)
    if (outer := _fastmcp_of(server)) is not None:
        from .fastmcp_host import FastMCPHost

        return FastMCPHost(outer)
    if isinstance(server, Server):
        return LowLevelHost(server)
    made = isinstance(server, Starlette) or isinstance(getattr(server, "attached", None), Attached)
    hint = "; give the server itself, this is an app that was made of one" if made else ""
    kind = type(server).__name__
    served = "an mcp MCPServer, a low-level Server or a FastMCP server"
    raise TypeError(f"framehold serves {served}, not {kind}; nothing was attached{hint}")


def _fastmcp_of(server: Any) -> Any:
    """`server` itself if it is a FastMCP server, or the FastMCP server whose low-level server it is; None if it is
    neither. fastmcp is not imported here: an author who has such a server has imported it."""
    made = getattr(sys.modules.get("fastmcp.server.server"), "FastMCP", ())
    if isinstance(server, made):
        return server
    outer = getattr(server, "fastmcp", None) if isinstance(server, Server) else None
    return outer if isinstance(outer, made) else None
