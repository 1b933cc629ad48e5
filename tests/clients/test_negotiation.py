"""How the official client finds out what a server speaks, through the router: by asking, by being told, or not at
all. One endpoint serves all three, and each books a table with three questions."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, TextContent

pytestmark = [pytest.mark.anyio, pytest.mark.npm]

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
WISHES = {"guests": 4, "evening": "saturday", "place": "garden", "candles": True, "name": "Ana"}
BOOKED = "Booked for Ana. Luna, saturday evening: a table for 4 in the garden, by candlelight. See you there!"


async def book(url: str, mode: str) -> tuple[str, list[str]]:
    """Book a table; the protocol version that the client settled for, and the methods of what it sent, in order. An
    answer to a question on the stream of its call has none."""
    asked: list[str] = []

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        asked.append(params.message)
        return ElicitResult(
            action="accept", content={field: WISHES[field] for field in params.requested_schema["properties"]}
        )

    async def note(request: httpx2.Request) -> None:
        if request.content:
            sent.append(json.loads(request.content).get("method", ""))

    sent: list[str] = []
    hooks: dict[str, list[Any]] = {"request": [note]}
    async with httpx2.AsyncClient(event_hooks=hooks, timeout=30) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=answer) as client:
            result = await client.call_tool("book", {"restaurant": "Luna"})
            version = client.session.protocol_version
    (block,) = result.content
    assert isinstance(block, TextContent) and not result.is_error
    assert (block.text, len(asked)) == (BOOKED, 3)
    assert version is not None
    return version, sent


@pytest.fixture
def server(request: pytest.FixtureRequest) -> str:
    """Where the fixture of this name serves."""
    return str(request.getfixturevalue(request.param))


@pytest.mark.parametrize(
    ("server", "mode", "version", "first"),
    [
        pytest.param("endpoint", "auto", MODERN, ["server/discover"], id="it asks, and hears of 2026-07-28"),
        pytest.param("endpoint", MODERN, MODERN, ["tools/call"], id="it is pinned, and asks nothing first"),
        pytest.param("endpoint", "legacy", HANDSHAKE, ["initialize"], id="it knows no other than the handshake"),
        pytest.param("of_2025", "auto", HANDSHAKE, ["server/discover", "initialize"], id="it asks a server of 2025"),
    ],
    indirect=["server"],
)
async def test_a_client_settles_for_what_both_speak(server: str, mode: str, version: str, first: list[str]) -> None:
    """On 2026-07-28 each question is a result, and each answer a further round. On 2025-11-25 there is one call, and
    three requests of the server's own on its event stream. The refusal of `server/discover` is no error to a client
    that asks: so one program runs against both."""
    settled, sent = await book(server, mode)
    assert settled == version and sent[: len(first)] == first
    assert {"server/discover", "initialize"} & set(sent) == {"server/discover", "initialize"} & set(first)
    assert (sent.count("tools/call"), sent.count("")) == ((4, 0) if version == MODERN else (1, 3))


async def test_a_pinned_client_fails_clearly_at_a_server_of_2025(of_2025: str) -> None:
    """It may not fall back: its call is refused for what a server of that time misses, the handshake's session, and
    nothing is asked."""
    async with Client(of_2025, mode=MODERN) as client:
        with pytest.raises(MCPError, match="Missing session ID"):
            await client.call_tool("book", {"restaurant": "Luna"})
