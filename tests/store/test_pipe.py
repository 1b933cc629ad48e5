"""A connection as callbacks: every reply in order, none after the end, and the end once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Connection
from redis.exceptions import ConnectionError, ResponseError

from framehold_store import StoreConfig
from framehold_store.batch import pack
from framehold_store.connections import open_pool
from framehold_store.pipe import TransportPipe
from tests.kit.redis_server import RedisServer, Wire

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[("asyncio", {}), ("asyncio", {"use_uvloop": True})], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class Reply:
    """What a pipe has given."""

    def __init__(self) -> None:
        self.replies: asyncio.Queue[Any] = asyncio.Queue()
        self.ends: list[Exception] = []
        self.ended = asyncio.Event()

    def lost(self, error: Exception) -> None:
        self.ends.append(error)
        self.ended.set()


@pytest.fixture
async def wire(server: RedisServer) -> AsyncIterator[Wire]:
    async with Wire(server.port) as built:
        yield built


@pytest.fixture
async def connection(wire: Wire) -> AsyncIterator[Connection]:
    pool = open_pool(StoreConfig(f"redis://127.0.0.1:{wire.port}"))
    yield await pool.get_connection()  # type: ignore[no-untyped-call]  # redis-py does not annotate it
    await pool.aclose()


async def test_replies_come_in_the_order_of_the_commands(connection: Connection) -> None:
    """An error reply is one of them; so is a reply that takes several reads."""
    reply = Reply()
    pipe = TransportPipe(connection, reply.replies.put_nowait, reply.lost)
    large = bytes(1 << 20)
    pipe.write(b"".join(pack(command) for command in (("ECHO", "a"), ("NOPE",), ("ECHO", large), ("ECHO", "b"))))
    async with asyncio.timeout(10):
        found = [await reply.replies.get() for _ in range(4)]
    assert found[0] == b"a"
    assert isinstance(found[1], ResponseError)
    assert found[2:] == [large, b"b"]
    assert not reply.ends


async def test_no_reply_comes_after_close(connection: Connection) -> None:
    """Not even one that came in the same read as the last one before."""
    response = Reply()

    def receive(reply: Any) -> None:
        response.replies.put_nowait(reply)
        pipe.close()

    pipe = TransportPipe(connection, receive, response.lost)
    pipe.write(pack(("ECHO", "a")) + pack(("ECHO", "b")))
    async with asyncio.timeout(10):
        assert await response.replies.get() == b"a"
    pipe.data_received(b"+later\r\n")
    async with asyncio.timeout(10):
        await connection.disconnect()
    assert response.replies.empty()
    assert not response.ends


async def test_the_end_is_reported_once(connection: Connection, wire: Wire) -> None:
    reply = Reply()
    pipe = TransportPipe(connection, reply.replies.put_nowait, reply.lost)
    wire.cut()
    async with asyncio.timeout(10):
        await reply.ended.wait()
    assert len(reply.ends) == 1
    with pytest.raises(ConnectionError):
        pipe.write(pack(("PING",)))
    with pytest.raises(ConnectionError):
        TransportPipe(connection, reply.replies.put_nowait, reply.lost)


async def test_bytes_that_are_no_reply_end_it(connection: Connection) -> None:
    """As a lost connection does: the bytes after them have no meaning."""
    reply = Reply()
    TransportPipe(connection, reply.replies.put_nowait, reply.lost).data_received(b"HTTP/1.1 400 Bad Request\r\n")
    assert len(reply.ends) == 1
    assert reply.replies.empty()
