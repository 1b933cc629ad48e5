"""Which address a command uses: the one that was given, or that of the fleet which runs on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from framehold_cli.client import addresses, local_fleets
from framehold_cli.client.local_fleets import LocalFleet
from framehold_core.errors import ConfigError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runtime folder of the user."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def ports() -> Iterator[list[int]]:
    """Two ports at which something listens."""
    with socket.create_server(("127.0.0.1", 0)) as first, socket.create_server(("127.0.0.1", 0)) as second:
        yield sorted(one.getsockname()[1] for one in (first, second))


@pytest.mark.parametrize(
    ("url", "router", "server"),
    [
        ("http://127.0.0.1:9700", "http://127.0.0.1:9700", "http://127.0.0.1:9700/mcp"),
        ("http://127.0.0.1:9700/mcp", "http://127.0.0.1:9700", "http://127.0.0.1:9700/mcp"),
        ("http://127.0.0.1:9700/mcp/", "http://127.0.0.1:9700", "http://127.0.0.1:9700/mcp/"),
        ("127.0.0.1:9700", "http://127.0.0.1:9700", "http://127.0.0.1:9700/mcp"),
        ("http://h:1/dashboard#token=secret", "http://h:1", "http://h:1/mcp"),
        ("https://example.com/fleet/mcp", "https://example.com/fleet", "https://example.com/fleet/mcp"),
        ("https://example.com/tools?x=1", "https://example.com/tools?x=1", "https://example.com/tools?x=1"),
        ("http://[x", "http://[x", "http://[x"),
    ],
)
def test_an_address_that_was_given(url: str, router: str, server: str) -> None:
    """A command of MCP finds the endpoint without its path, a command of the router's API the router with any path that
    `framehold up` prints."""
    assert (addresses.router(url, None), addresses.server(url, None)) == (router, server)


def test_a_port_is_of_this_machine() -> None:
    assert addresses.router(None, 9700) == "http://127.0.0.1:9700"
    assert addresses.server(None, 9700) == "http://127.0.0.1:9700/mcp"
    with pytest.raises(ConfigError, match="--url and --port name two addresses; nothing was done"):
        addresses.router("http://h:1", 9700)


def test_the_api_is_at_the_admin_port_of_this_machine(ports: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A router that has one serves no API beside its calls. The fleets of `framehold up` have none."""
    server = addresses.of_port(ports[0])
    assert addresses.api(None, server) is None
    monkeypatch.setenv("FRAMEHOLD_ADMIN_PORT", "9701")
    assert addresses.api(None, server) == "http://127.0.0.1:9701"
    assert addresses.api("http://elsewhere:1", "http://elsewhere:1/mcp") is None
    local_fleets.keep(LocalFleet(port=ports[0], serves="shop.py"))
    assert addresses.api(None, server) is None


def test_a_server_elsewhere_needs_no_setting_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEHOLD_ADMIN_PORT", "none")
    assert addresses.api("http://elsewhere:1", "http://elsewhere:1/mcp") is None


def test_the_fleet_of_this_machine_is_found_and_named(
    ports: list[int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named on standard error, where it is not at the usual port."""
    local_fleets.keep(LocalFleet(port=ports[0], serves="shop\x1b[2J.py"))
    assert addresses.server(None, None) == f"http://127.0.0.1:{ports[0]}/mcp"
    result = capsys.readouterr()
    line = f"framehold: the fleet at http://127.0.0.1:{ports[0]}, where framehold up serves shop\\x1b[2J.py\n"
    assert (result.out, result.err) == ("", line)
    monkeypatch.setattr(addresses, "USUAL_PORT", ports[0])
    assert addresses.router(None, None) == f"http://127.0.0.1:{ports[0]}" and capsys.readouterr().err == ""


def test_of_several_fleets_none_is_chosen(ports: list[int]) -> None:
    """The error names each, so that the next command line is easy to write."""
    for port, serves in zip(ports, ("shop.py", "the booking example"), strict=True):
        local_fleets.keep(LocalFleet(port=port, serves=serves))
    named = rf"--port {ports[0]} \(shop.py\), --port {ports[1]} \(the booking example\)"
    with pytest.raises(
        ConfigError, match=rf"2 fleets of framehold up run on this machine; nothing was done; .*{named}"
    ):
        addresses.router(None, None)
    assert addresses.router(None, ports[1]) == f"http://127.0.0.1:{ports[1]}"


def test_without_a_fleet_it_is_the_usual_port() -> None:
    local_fleets.keep(LocalFleet(port=1))
    assert addresses.router(None, None) == "http://127.0.0.1:8080"


def test_the_options_of_a_pasted_command() -> None:
    """No option for the usual port, the port alone for this machine."""
    assert addresses.options("http://127.0.0.1:8080/mcp") == []
    assert addresses.options("http://127.0.0.1:9700/mcp") == ["--port", "9700"]
    assert addresses.options("http://h:9700") == ["--url", "http://h:9700"]
