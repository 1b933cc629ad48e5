"""Sessions of clients of 2025 are open to anybody, so they are bounded: they must leave room for parked calls."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import Context

from framehold.config import Settings
from framehold.engine.memory import LOW, SESSION_BYTES, sessions
from framehold.hosts import sdk_app
from tests.node.stage import Word, said, server_of, stage

pytestmark = pytest.mark.anyio

ACCEPT = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


async def one(ctx: Context) -> str:
    return said(await ctx.elicit("Which word?", Word))


async def test_a_session_too_many_is_refused_and_parked_calls_go_on() -> None:
    """With 503, until another one ends."""
    async with stage(one, max_sessions=2) as client, httpx2.AsyncClient(headers=ACCEPT) as http:
        held = await client.call("one")
        opened = [await http.post(client.url, json=INITIALIZE) for _ in range(3)]
        assert [item.status_code for item in opened] == [200, 200, 503]
        assert (await client.retry("one", held.token, held.accept(word="w"))).text == "w"
        assert (await client.call("one")).messages == ["Which word?"]
        ending = {"mcp-session-id": opened[0].headers["mcp-session-id"]}
        assert (await http.delete(client.url, headers=ending)).status_code == 200
        assert (await http.post(client.url, json=INITIALIZE)).status_code == 200


@pytest.mark.parametrize(
    ("limit", "resident", "fit"),
    [
        (None, 1 << 27, 10_000),
        (1 << 30, None, 10_000),
        (1 << 30, 100 << 20, int(((1 << 30) * LOW - (100 << 20)) / 2 / SESSION_BYTES)),
        (1 << 40, 100 << 20, 10_000),
        (100 << 20, 100 << 20, 100),
    ],
)
def test_sessions_leave_half_of_the_memory_to_frames(limit: int | None, resident: int | None, fit: int) -> None:
    """At most 10,000, and some however little memory there is."""
    assert sessions(10_000, 100, limit, resident) == fit


def test_the_memory_limit_bounds_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a setting of their own."""
    monkeypatch.setattr("framehold.engine.memory.resident", lambda: 100 << 20)
    found: list[Any] = []
    for settings in (Settings(memory_limit=300 << 20), Settings(memory_limit=300 << 20, max_sessions=7)):
        server = server_of("bounded", one)
        sdk_app.sdk_app(server, settings, "/mcp")
        found.append(server.session_manager.max_sessions)
    assert found == [int((300 * LOW - 100) * 1024 / 2 / 40), 7]
