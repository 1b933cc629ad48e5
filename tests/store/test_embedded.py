"""The fake Redis: shared inside a process, and served over TCP to a local fleet."""

import socket
from collections.abc import Iterator

import pytest
from fakeredis import FakeServer

from framehold_core.requests import Verdict
from framehold_store import StoreConfig
from framehold_store.embedded import EmbeddedStore, LocalServer, _Server, serve
from framehold_store.redis import RedisStore
from tests.store.calls import Story
from tests.store.test_registry import node

pytestmark = pytest.mark.anyio


@pytest.fixture
def local() -> Iterator[LocalServer]:
    server = serve()
    yield server
    server.stop()


async def test_stores_of_one_process_may_share_a_server() -> None:
    """So that a test can run several nodes without a Redis."""
    server, config = FakeServer(), StoreConfig("embedded://", op_timeout=10.0)
    one, two, other = EmbeddedStore(config, server), EmbeddedStore(config, server), EmbeddedStore(config)
    story = Story()
    await one.run(story.ask)
    assert (await two.run(story.read)).verdict is Verdict.OK
    assert (await other.run(story.read)).verdict is Verdict.MISSING
    for store in (one, two, other):
        await store.close()


async def test_a_local_fleet_shares_a_server(local: LocalServer) -> None:
    """Over TCP, with the ordinary Redis store: calls, leases and the change feed."""
    config = StoreConfig(local.url, op_timeout=10.0, poll=60.0)
    one, two = RedisStore(config), RedisStore(config)
    story = Story()
    await one.run(story.ask)
    assert (await two.run(story.ask)).verdict is Verdict.ALREADY
    feed = two.changes()
    await anext(feed)
    await one.register(node(), 60.0)
    while not await two.nodes():
        await anext(feed)
    await one.close()
    await two.close()


def test_replies_leave_at_once() -> None:
    """Accepted sockets have TCP_NODELAY: without it a batch takes 40 ms."""
    with _Server(("127.0.0.1", 0)) as listening, socket.create_connection(("127.0.0.1", listening.server_address[1])):
        accepted, _ = listening.get_request()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_taken_port_is_an_error(local: LocalServer) -> None:
    """The error reaches the caller that starts the fleet."""
    with pytest.raises(OSError, match="in use"):
        serve(port=int(local.url.rpartition(":")[2]))
