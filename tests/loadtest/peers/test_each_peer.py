"""Each peer, for real, completes a call and gets its result right: what is not right is not worth measuring."""

from __future__ import annotations

import pkgutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from framehold_loadtest.bench import calls, weather
from framehold_loadtest.client import rounds
from framehold_loadtest.client.connection import Connection, post
from framehold_loadtest.local.listeners import pick_cores
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.peers import restate, servers
from framehold_loadtest.served.weather import TOOL_NAME

pytestmark = [pytest.mark.anyio, pytest.mark.load]

GROUPS = servers.peers(Path(__file__).parents[3] / ".cache" / "peers")
PEERS = {name: group for group in GROUPS for name in group.what}
SPEAK_MCP = [name for name, group in PEERS.items() if not group.call]


def started(name: str, stack: ExitStack) -> calls.Site:
    return PEERS[name].start(stack, pick_cores())[name]


async def complete(name: str, port: int) -> None:
    """Two calls of a peer, on one connection; each has its own answer."""
    way = PEERS[name].call.get(name)
    run: calls.Complete = pkgutil.resolve_name(way) if way else calls.complete_call
    channel = await Connection.open(port)
    for number in (1, 2):
        assert min(await run(channel, port, weather.make_call(number))) > 0
    channel.close()


@pytest.mark.parametrize("name", SPEAK_MCP)
async def test_a_call_is_asked_and_answered(name: str) -> None:
    """By the client of the benchmark, which checks the question, the token and the text."""
    with ExitStack() as stack:
        await complete(name, started(name, stack).port)


@pytest.mark.parametrize("name", ["sdk", "resolve", "fastmcp"])
async def test_a_peer_is_served_in_its_json_mode_and_its_default_mode_beside_it(name: str) -> None:
    """The SDK takes a client that accepts no event stream in its JSON mode only."""
    for peer, status in ((name, 200), (f"{name}, default", 406)):
        with ExitStack() as stack:
            port = started(peer, stack).port
            fields = rounds.fields(TOOL_NAME) | {"Accept": "application/json"}
            channel = await Connection.open(port)
            reply = await channel.request(post(port, fields, rounds.begin(1, TOOL_NAME, {"location": "here"})))
            channel.close()
        assert reply.status == status, peer


async def test_a_promise_of_restate_is_resolved_by_the_second_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways at one server; a key serves once, so the runs of two loads must differ in theirs."""
    with ExitStack() as stack:
        site = started("restate, known", stack)
        await complete("restate, known", site.port)
        monkeypatch.setattr(restate, "_RUN", "another")
        await complete("restate, asked", site.port)
        assert site.store not in (0, site.server)


def test_a_machine_without_the_binary_is_told_before_anything_is_started(tmp_path: Path) -> None:
    binary = tmp_path / "restate-server-linux-x64" / "bin" / "restate-server"
    with pytest.raises(NotAvailable, match="restate-server-linux-x64 is missing"):
        restate.restate(0, binary).__enter__()
