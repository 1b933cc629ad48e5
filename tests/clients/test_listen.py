"""`subscriptions/listen` across nodes: a stream is where its client is, a change is announced wherever a tool runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ResourceUpdated, Subscription, ToolsListChanged

from tests.kit.client import Caller
from tests.kit.fleet import Fleet
from tests.kit.redis_server import RedisServer, running

pytestmark = [pytest.mark.anyio, pytest.mark.npm]

TARGET = "tests/clients/announcing.py"
SOON = 15.0


@pytest.fixture(scope="module")
def store() -> Iterator[RedisServer]:
    """A Redis that tests may stop; whoever does starts it again."""
    with running(RedisServer()) as built:
        yield built


@pytest.fixture(scope="module")
def made(store: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two nodes and a router. Their leases outlive what tests do to the store."""
    made = Fleet(tmp_path_factory.mktemp("listen"), store, TARGET, lease_ttl="10")

    async def start() -> None:
        await made.add_nodes("node-1", "node-2")
        await made.add_router()

    try:
        asyncio.run(start())
        yield made
    finally:
        made.stop()


@asynccontextmanager
async def listening(url: str, **what: Any) -> AsyncIterator[Subscription]:
    async with Client(url) as client, client.listen(**what) as subscription:
        yield subscription


async def announce(url: str, tool: str, **arguments: Any) -> str:
    """Run an announcing tool, and say which node it ran on."""
    async with Caller(url) as caller:
        reply = await caller.call(tool, arguments=arguments)
    assert reply.text == "said"
    return reply.headers["framehold-node"]


async def test_a_listener_hears_what_a_tool_on_another_node_announces(made: Fleet) -> None:
    """Both nodes are spoken to directly: the stream is on the one, the tool runs on the other. Only what was asked for
    is heard."""
    here, there = made.nodes["node-1"].url, made.nodes["node-2"].url
    async with listening(here, tools_list_changed=True, resource_subscriptions=["note://a"]) as reply:
        async with asyncio.timeout(SOON):
            assert await announce(there, "note_changed", name="b") == "node-2"
            assert await announce(there, "note_changed", name="a") == "node-2"
            assert await anext(reply) == ResourceUpdated("note://a")
            assert await announce(there, "tools_changed") == "node-2"
            assert await anext(reply) == ToolsListChanged()


async def test_a_listener_behind_the_router_hears_tools_of_every_node(made: Fleet) -> None:
    """Wherever its stream is, one of the two is another node's."""
    async with listening(made.routers[0].url, tools_list_changed=True) as reply, asyncio.timeout(SOON):
        for node in made.nodes.values():
            await announce(node.url, "tools_changed")
            assert await anext(reply) == ToolsListChanged()


async def test_an_event_reaches_local_listeners_alone_while_the_store_is_down(made: Fleet, store: RedisServer) -> None:
    """The tool that announces it is none the worse; the other node's listeners hear the next one, when the store is
    back."""
    here, there = (made.nodes[name].url for name in ("node-1", "node-2"))
    async with (
        listening(here, resource_subscriptions=["note://a", "note://b"]) as near,
        listening(there, resource_subscriptions=["note://a", "note://b"]) as far,
        asyncio.timeout(40),
    ):
        store.stop()
        try:
            assert await announce(here, "note_changed", name="a") == "node-1"
        finally:
            store.start()
        assert await anext(near) == ResourceUpdated("note://a")
        hears = asyncio.ensure_future(anext(far))
        while not hears.done():
            # Nothing is kept for a node whose subscription is still on its way back.
            await announce(here, "note_changed", name="b")
            await asyncio.wait((hears,), timeout=0.1)
        assert await hears == ResourceUpdated("note://b")
    assert "an event reached this node's listeners alone" in made.nodes["node-1"].log()


async def test_a_node_that_drains_ends_its_listen_streams_in_good_order(made: Fleet) -> None:
    """The client's loop ends, rather than with an error, and what it asks for next is on a node that stays."""
    await made.add_nodes("node-3")
    router, drained = made.routers[0].url, made.nodes.pop("node-3")
    served: list[str] = []

    async def note(response: httpx2.Response) -> None:
        served.append(response.headers["framehold-node"])

    async with (
        asyncio.timeout(SOON),
        httpx2.AsyncClient(event_hooks={"response": [note]}, timeout=60) as http,
        Client(streamable_http_client(router, http_client=http)) as client,
    ):
        while True:
            async with client.listen(tools_list_changed=True) as reply:
                if served[-1] == "node-3":
                    drained.terminate()
                    assert [event async for event in reply] == []
                    break
        async with client.listen(tools_list_changed=True) as reply:
            assert served[-1] != "node-3"
            await announce(router, "tools_changed")
            assert await anext(reply) == ToolsListChanged()
    drained.stop()
    assert "Traceback" not in drained.log()
