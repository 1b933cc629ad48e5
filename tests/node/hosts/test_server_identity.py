"""What the lease of a node says of its server: its name, and a digest of the names of its tools."""

from __future__ import annotations

from typing import Any

from fastmcp import FastMCP
from mcp.server.lowlevel.server import Server
from mcp.server.mcpserver import MCPServer

from framehold import attach


def identity(server: Any, *tools: str) -> tuple[str | None, str | None]:
    for name in tools:
        server.tool(name=name)(lambda: "done")
    return attach(server).runtime.peers.identity()


def test_a_server_is_named_and_its_tools_tell_one_list_from_another() -> None:
    name, first = identity(MCPServer("shop"), "book", "pay")
    assert name == "shop" and first is not None
    assert identity(MCPServer("shop"), "pay", "book") == ("shop", first)
    assert identity(MCPServer("shop"), "pay")[1] != first
    assert identity(FastMCP("shop"), "book", "pay") == ("shop", first)


def test_a_name_that_was_made_up_at_random_is_none() -> None:
    assert identity(FastMCP(), "book")[0] is None


def test_a_server_that_can_not_list_its_tools_has_no_digest() -> None:
    assert identity(Server[Any]("low")) == ("low", None)
