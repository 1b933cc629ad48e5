"""What HAProxy passes on as the example configures it: nothing that leaves open where a request ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from .balanced import balanced

POST = b"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\na"
TUNNELS = {
    "by its authority": b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\nContent-Length: 53\r\n\r\n",
    "by a URL": b"CONNECT HTTP://A:80/mcp?x HTTP/1.1\r\nHost: a\r\nContent-Length: 53\r\n\r\n",
    "without a body": b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
}
CODINGS = ("chunked,", ",chunked", "chunked, ,", "gzip, chunked", "Chunked ;x")


def _played(folder: Path, stream: bytes) -> tuple[tuple[object, ...], str | None]:
    """The statuses that a stream got and how many of its requests were passed on; and what is wrong with that."""

    async def play() -> tuple[tuple[object, ...], str | None]:
        async with balanced(folder) as at:
            wrong = await at.wrong([stream])
            return next(iter(at.shapes)), wrong

    return asyncio.run(play())


@pytest.mark.parametrize("stream", TUNNELS.values(), ids=TUNNELS)
def test_no_tunnel_is_opened_to_a_node(tmp_path: Path, stream: bytes) -> None:
    """A node that answered CONNECT with 200 would get whatever its client writes next, past all rules. What follows a
    CONNECT that is refused is the client's next request."""
    shape, wrong = _played(tmp_path, stream + POST)
    assert (shape[0], wrong) == (b"501", None)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_coding_that_nodes_might_read_otherwise_is_refused(tmp_path: Path, coding: str) -> None:
    head = f"POST /mcp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: {coding}\r\nConnection: Upgrade\r\nUpgrade: websocket"
    (status, passed), wrong = _played(tmp_path, f"{head}\r\n\r\n1\r\na\r\n000\r\n\r\n".encode())
    assert (status, wrong, passed) in ((b"400", None, 0), (b"422", None, 0), (b"501", None, 0))


def test_chunks_are_passed_on(tmp_path: Path) -> None:
    stream = b"POST /mcp HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
    assert _played(tmp_path, stream) == ((b"200", 1), None)
