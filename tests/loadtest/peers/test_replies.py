"""What the load generator takes for a right answer: bodies in chunks as Node sends them, and Restate's replies."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from framehold_loadtest.bench import weather
from framehold_loadtest.client.connection import CallError, Connection
from framehold_loadtest.peers.restate import asked, known
from framehold_loadtest.served.weather import QUESTION

pytestmark = [pytest.mark.anyio, pytest.mark.load]

CALL = weather.make_call(1)  # "city 1" in "F"
RIGHT = b'"city 1: 21 F"'


class Played:
    """A server that gives its replies in order, whatever it is asked, in pieces of so many bytes."""

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.piece = 1 << 16
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):  # the client has gone
            while head := await reader.readuntil(b"\r\n\r\n"):
                await reader.readexactly(int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]))
                reply = self.replies.pop(0)
                for at in range(0, len(reply), self.piece):
                    writer.write(reply[at : at + self.piece])
                    await writer.drain()
                    await asyncio.sleep(0)
        writer.close()


@pytest.fixture
async def played() -> AsyncIterator[Played]:
    """It, listening."""
    made = Played()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.port = server.sockets[0].getsockname()[1]
    yield made
    server.close()


def whole(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def chunked(*chunks: bytes) -> bytes:
    parts = b"".join(b"%x;note=1\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"


@pytest.mark.parametrize("piece", [1, 7, 1 << 16])
async def test_a_body_in_chunks_is_put_together_however_it_arrives(played: Played, piece: int) -> None:
    """And the connection serves the next request, in chunks or not."""
    played.replies, played.piece = [chunked(b'{"a":', b"1" * 20, b"}"), whole("200 OK", b"{}"), chunked()], piece
    channel = await Connection.open(played.port)
    request = b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n"
    bodies = [(await channel.request(request)).body for _ in range(3)]
    channel.close()
    assert bodies == [b'{"a":' + b"1" * 20 + b"}", b"{}", b""]


@pytest.mark.parametrize(
    ("way", "replies"),
    [
        (asked, [whole("200 OK", b'"Another question?"')]),
        (asked, [whole("500 Internal Server Error", b'"Which units?"')]),
        (known, [whole("200 OK", b"{}")]),
        (known, [whole("202 Accepted", b"{}"), whole("200 OK", b'"city 2: 21 F"')]),
        (asked, [whole("200 OK", json.dumps(QUESTION).encode()), whole("409 Conflict", RIGHT)]),
    ],
)
async def test_a_reply_of_restate_that_is_not_right_is_an_error(played: Played, way: Any, replies: list[bytes]) -> None:
    """Another question, another text, another status."""
    played.replies = replies
    channel = await Connection.open(played.port)
    with pytest.raises(CallError, match="round"):
        await way(channel, played.port, CALL)
    channel.close()


async def test_right_replies_of_restate_are_none(played: Played) -> None:
    """What the errors above differ from."""
    channel = await Connection.open(played.port)
    played.replies = [whole("202 Accepted", b"{}"), whole("200 OK", RIGHT)]
    assert min(await known(channel, played.port, CALL)) > 0
    played.replies = [whole("200 OK", json.dumps(QUESTION).encode()), whole("200 OK", RIGHT)]
    assert min(await asked(channel, played.port, CALL)) > 0
    channel.close()
