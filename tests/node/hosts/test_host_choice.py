"""Which kind of server an author holds is decided in one place, and what is no server is refused with a hint; which
hosts and origins its app accepts, and what the lease of a node says of it."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastmcp import FastMCP
from mcp.server import MCPServer, Server

import framehold
from framehold import attach
from framehold.config import Settings
from framehold.hosts import host_choice
from framehold.hosts.fastmcp_host import FastMCPHost
from framehold.hosts.host import Host
from framehold.hosts.lowlevel_host import LowLevelHost
from framehold.hosts.mcpserver_host import MCPServerHost
from framehold.hosts.sdk_app import local_only, sdk_app
from tests.kit.serving import server_of

PACKAGE = Path(framehold.__file__).parent
SERVERS = {"MCPServer", "Server", "FastMCP"}


def test_each_kind_has_its_host() -> None:
    """Of a low-level server that belongs to another one: FastMCP's leads back to it, an MCPServer's does not."""
    mcp, outer = MCPServer("m"), FastMCP[Any]("f")
    plain: Server[Any] = Server("low")
    chosen: list[tuple[Any, type[Any], Any, bool]] = [
        (mcp, MCPServerHost, mcp._lowlevel_server, True),
        (mcp._lowlevel_server, LowLevelHost, mcp._lowlevel_server, False),
        (plain, LowLevelHost, plain, False),
        (outer, FastMCPHost, outer._mcp_server, True),
        (outer._mcp_server, FastMCPHost, outer._mcp_server, True),
    ]
    for server, kind, lowlevel, each in chosen:
        host: Host = host_choice.host_of(server)
        assert host_choice.is_server(server)
        assert type(host) is kind and host.lowlevel is lowlevel and host.knows_each_function is each


@pytest.mark.parametrize("made", [True, False])
def test_what_is_no_server_is_refused(made: bool) -> None:
    given: Any = framehold.asgi(MCPServer("m"), Settings()) if made else SimpleNamespace(fastmcp=MCPServer("m"))
    hint = "; give the server itself, this is an app that was made of one" if made else ""
    assert not host_choice.is_server(given)
    with pytest.raises(TypeError) as raised:
        host_choice.host_of(given)
    kind = type(given).__name__
    served = "an mcp MCPServer, a low-level Server or a FastMCP server"
    assert str(raised.value) == f"framehold serves {served}, not {kind}; nothing was attached{hint}"


def test_nobody_else_asks_which_kind_it_is() -> None:
    """No other file of the node tests a value for the class of a server, but for the host of the low-level server that
    FastMCP keeps."""
    asking = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if _asks(path)}
    assert asking == {"hosts/host_choice.py", "hosts/fastmcp_host.py"}


def _asks(path: Path) -> bool:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    tests = (node for node in calls if isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass"))
    return any(isinstance(part, ast.Name) and part.id in SERVERS for test in tests for part in ast.walk(test.args[-1]))


async def one() -> str:
    return "one"


@pytest.mark.parametrize(
    ("given", "hosts", "origins"),
    [
        ({}, local_only().allowed_hosts, local_only().allowed_origins),
        ({"allowed_hosts": ("a.example",)}, ["a.example"], []),
        ({"allowed_origins": ("https://b.example",)}, local_only().allowed_hosts, ["https://b.example"]),
        (
            {"allowed_hosts": ("a.example",), "allowed_origins": ("https://b.example",)},
            ["a.example"],
            ["https://b.example"],
        ),
    ],
    ids=["neither", "hosts alone", "origins alone", "both"],
)
def test_each_setting_counts(given: dict[str, Any], hosts: list[str], origins: list[str]) -> None:
    """Also without the other one: hosts that no setting names are local ones."""
    _, security = sdk_app(server_of("named", one), Settings(**given), "/mcp")
    assert (security.allowed_hosts, security.allowed_origins) == (hosts, origins)
    assert security.enable_dns_rebinding_protection


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
