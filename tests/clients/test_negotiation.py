"""How the official client finds out what a server speaks, through the router: by asking, by being told, or not at
all. One endpoint serves all three, and each books a table with three questions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
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


class Wire:
    """What one client sent, and what it heard, as JSON-RPC messages."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self._streams: list[Overheard] = []

    async def request(self, request: httpx2.Request) -> None:
        """An event hook of the client's HTTP library."""
        if request.content:
            self.sent.append(json.loads(request.content))

    async def response(self, response: httpx2.Response) -> None:
        """Likewise; the body is read by the client."""
        stream = Overheard(response.stream)
        response.stream = stream
        self._streams.append(stream)

    @property
    def methods(self) -> list[str]:
        """What was asked of the server, in order; answers have no method."""
        return [message["method"] for message in self.sent if "method" in message]

    @property
    def streamed(self) -> list[str]:
        """The methods of what came over event streams."""
        lines = b"".join(stream.said for stream in self._streams).splitlines()
        found = (json.loads(line.removeprefix(b"data: ")) for line in lines if line.startswith(b"data: {"))
        return [message["method"] for message in found if "method" in message]


class Overheard(httpx2.AsyncByteStream):
    """A response's body, which is kept as it is read."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.said = stream, b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            self.said += piece
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


async def book(url: str, mode: str) -> tuple[str, Wire]:
    """Book a table; the protocol version that the client settled for, and what went over the wire."""
    asked: list[str] = []

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        asked.append(params.message)
        return ElicitResult(
            action="accept", content={field: WISHES[field] for field in params.requested_schema["properties"]}
        )

    wire = Wire()
    hooks: dict[str, list[Any]] = {"request": [wire.request], "response": [wire.response]}
    async with httpx2.AsyncClient(event_hooks=hooks, timeout=30) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=answer) as client:
            result = await client.call_tool("book", {"restaurant": "Luna"})
            version = client.session.protocol_version
    (block,) = result.content
    assert isinstance(block, TextContent) and not result.is_error
    assert (block.text, len(asked)) == (BOOKED, 3)
    assert version is not None
    return version, wire


async def test_a_client_that_asks_the_server_settles_for_2026_07_28(endpoint: str) -> None:
    """Auto, the default: `server/discover` first. Each question is a result, each answer a further round."""
    version, wire = await book(endpoint, "auto")
    assert version == MODERN
    assert wire.methods[0] == "server/discover"
    assert wire.methods.count("tools/call") == 4
    assert "elicitation/create" not in wire.streamed


async def test_a_client_that_is_pinned_to_2026_07_28_asks_nothing_first(endpoint: str) -> None:
    """The first thing that it sends is the call."""
    version, wire = await book(endpoint, MODERN)
    assert version == MODERN
    assert wire.methods[0] == "tools/call" and wire.methods.count("tools/call") == 4
    assert not {"server/discover", "initialize"} & set(wire.methods)


async def test_a_legacy_client_is_elicited_over_the_stream_of_its_call(endpoint: str) -> None:
    """The handshake of 2025-11-25, one call, and three requests of the server's own on its event stream."""
    version, wire = await book(endpoint, "legacy")
    assert version == HANDSHAKE
    assert wire.methods[0] == "initialize" and "server/discover" not in wire.methods
    assert wire.methods.count("tools/call") == 1
    assert wire.streamed.count("elicitation/create") == 3


async def test_a_client_that_asks_falls_back_to_the_handshake_of_a_server_of_2025(of_2025: str) -> None:
    """What makes one program run against both: the refusal of `server/discover` is no error to it."""
    version, wire = await book(of_2025, "auto")
    assert version == HANDSHAKE
    assert wire.methods[:2] == ["server/discover", "initialize"]
    assert wire.streamed.count("elicitation/create") == 3


async def test_a_pinned_client_fails_clearly_at_a_server_of_2025(of_2025: str) -> None:
    """It may not fall back: its call is refused for what a server of that time misses, the handshake's session, and
    nothing is asked."""
    async with Client(of_2025, mode=MODERN) as client:
        with pytest.raises(MCPError, match="Missing session ID"):
            await client.call_tool("book", {"restaurant": "Luna"})
