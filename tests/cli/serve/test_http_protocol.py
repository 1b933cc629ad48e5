"""A request that offers another protocol is served as if it did not, and so is what follows on its connection."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator

import pytest

from tests.kit.serving import Served, serving

pytestmark = pytest.mark.anyio

OFFERS = {
    "none": b"",
    "h2c": b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAEAAEAAAAIAAAAB\r\n",
    "TLS": b"upgrade: TLS/1.0\r\nconnection: upgrade\r\n",
    "WebSocket": b"upgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n",
    "several": b"upgrade: h2c, IRC/6.9, RTA/x11\r\nconnection: upgrade\r\n",
}
CUTS = {
    "in one piece": (),
    "head, then body": (0,),
    "in the middle": (-20, 30),
    "byte by byte": tuple(range(-400, 400)),
}
"""Where a request is cut into pieces: bytes from the end of its head."""


async def echo(text: str) -> str:
    """Give a text back."""
    return text


@pytest.fixture(params=["framehold", "uvicorn"], autouse=True)
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both servers of a node."""
    monkeypatch.setenv("FRAMEHOLD_SERVER", request.param)
    return str(request.param)


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[Served, asyncio.StreamReader, asyncio.StreamWriter]]:
    async with serving(echo) as client:
        reader, writer = await asyncio.open_connection(*client.url.split("/")[2].split(":"))
        yield client, reader, writer
        writer.close()


def request(client: Served, text: str, offer: bytes, chunked: bool) -> tuple[bytes, bytes]:
    """The head and the body of a call."""
    envelope = client.envelope("tools/call", {"name": "echo", "arguments": {"text": text}})
    body = json.dumps(envelope.body).encode()
    framing = b"transfer-encoding: chunked" if chunked else b"content-length: %d" % len(body)
    if chunked:
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:50], body[50:])) + b"0\r\n\r\n"
    named = "".join(f"{name}: {value}\r\n" for name, value in envelope.headers.items()).encode()
    host = client.url.split("/")[2].encode()
    return b"POST /mcp HTTP/1.1\r\nhost: %b\r\n%b%b%b\r\n\r\n" % (host, named, offer, framing), body


async def answer(reader: asyncio.StreamReader) -> str:
    """What the next response on a connection says."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    said = json.loads(await reader.readexactly(length))["result"]["content"][0]["text"]
    return str(said)


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("chunked", [False, True], ids=["with its length", "chunked"])
async def test_an_offer_changes_nothing(offer: str, cuts: str, chunked: bool) -> None:
    async with connected() as (client, reader, writer), asyncio.timeout(30):
        for text in ("first", "second"):
            head, body = request(client, text, OFFERS[offer], chunked)
            whole, places = head + body, [len(head) + cut for cut in CUTS[cuts]]
            within = [0, *sorted(place for place in places if 0 < place < len(whole)), len(whole)]
            for begin, end in itertools.pairwise(within):
                writer.write(whole[begin:end])
                await writer.drain()
                await asyncio.sleep(0)
            assert await answer(reader) == text


async def test_requests_that_are_sent_together_are_served_in_order() -> None:
    """Also behind an offer: what follows its body is the next request."""
    async with connected() as (client, reader, writer), asyncio.timeout(30):
        texts = [f"text {number}" for number in range(6)]
        offers = [OFFERS["h2c"], b"", OFFERS["TLS"]]
        requests = [request(client, text, offers[number % 3], number % 2 == 1) for number, text in enumerate(texts)]
        writer.write(b"".join(head + body for head, body in requests))
        assert [await answer(reader) for _ in texts] == texts


async def test_a_body_that_is_cut_off_is_no_request() -> None:
    """The tool is not called."""
    async with connected() as (client, reader, writer), asyncio.timeout(30):
        head, body = request(client, "cut", OFFERS["h2c"], False)
        writer.write(head + body[:-10])
        writer.write_eof()
        assert await reader.read() == b""
        assert len(client.runtime.table) == 0


HEAD = b"POST /mcp HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize("offer", OFFERS)
@pytest.mark.parametrize("coding", [b"xchunked", b"gzip", b'"chunked"', b"chunked, gzip", b"chunked\x0b"])
async def test_a_coding_that_is_none_is_refused(offer: str, coding: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """In words: a loop that closes a connection because of an exception says nothing to its client."""
    async with connected() as (_, reader, writer), asyncio.timeout(30):
        writer.write(HEAD + OFFERS[offer] + b"transfer-encoding: " + coding + b"\r\n\r\n0\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
    assert "Fatal error" not in caplog.text


@pytest.mark.parametrize("offer", OFFERS)
async def test_trailers_are_no_headers(offer: str) -> None:
    """Whoever reads heads in front of a node has seen none of them. A second `mcp-name` in the head is refused."""
    async with connected() as (client, reader, writer), asyncio.timeout(30):
        for text in ("first", "second"):
            head, body = request(client, text, OFFERS[offer], chunked=True)
            writer.write(head + body.removesuffix(b"\r\n") + b"mcp-name: other\r\nhost: other\r\n\r\n")
            assert await answer(reader) == text


LARGE = {
    "lines": (HEAD, b"a:b\r\n" * 100),
    "one line": (HEAD + b"a: ", b"b" * 100_000),
    "a target": (b"GET /", b"b" * 100_000),
    "trailers": (HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n", b"a:b\r\n" * 10_000),
    "one trailer": (HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\na: ", b"b" * 100_000),
}


@pytest.mark.parametrize("kind", LARGE)
async def test_a_head_without_an_end_is_given_up(kind: str) -> None:
    """uvicorn itself would keep all of it."""
    begin, piece = LARGE[kind]
    async with connected() as (_, reader, writer):
        writer.write(begin)
        with contextlib.suppress(ConnectionError):
            for _ in range(30):
                writer.write(piece)
                await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 414 ")) and b"connection: close" in head
        assert b" was not read" in await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))


async def test_a_large_head_and_a_large_body_are_served() -> None:
    """As large as a router may let through."""
    async with connected() as (client, reader, writer):
        head, body = request(
            client, "x" * 3_000_000, b"x-large: " + b"y" * 900_000 + b"\r\n" + b"a: b\r\n" * 900, False
        )
        writer.write(head + body)
        assert len(await answer(reader)) == 3_000_000
