"""A whole router in this process, its store a test's own, before nodes that say what a test tells them to; and what its
`/metrics` says."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_core.lease import NodeRecord, end_of
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.members.node_stats import Stats
from framehold_router import app
from framehold_router.collect import shared_look
from framehold_router.collect.departures import Departures
from framehold_router.config import RouterSettings
from framehold_store.memory import MemoryStore
from tests.router.wires import DEADLINE, KEY, TRUST, Answer, Client, Node, Reply, node, ok

TTL = 6.0

Series = tuple[str, frozenset[tuple[str, str]]]


def series(name: str, **labels: str) -> Series:
    return f"framehold_{name}", frozenset(labels.items())


def samples(text: str) -> dict[Series, float]:
    """Each series of ours, and its value."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("framehold_")
    }


SEALS = LeaseSeal(TRUST, "default")


class Actor:
    """A node: `tools` is what it says of itself, `answer` what it makes of everything else."""

    def __init__(self, name: str, tools: Iterable[str], answer: Answer) -> None:
        self.name, self.tools, self.answer = name, tuple(tools), answer
        self.boot, self.beat, self.stats = "b", 0, Stats()
        self.asked = asyncio.Event()
        self.wire: Node | None = None

    async def __call__(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not reply.first.startswith(b"GET /admin/node "):
            await self.answer(reply, reader, writer)
            return
        text = {"node_id": self.name, "incarnation": "i", "boot": self.boot, "state": "live", "tools": self.tools}
        writer.write(ok(json.dumps(text).encode()))
        self.asked.set()

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self.wire.address) if self.wire is not None else "http://127.0.0.1:1"

    def lease(self, now: float, state: str = "live") -> NodeRecord:
        self.beat += 1
        life = NodeId(self.name), Incarnation(f"i-{self.boot}"), Boot(self.boot), self.beat
        return SEALS.seal(NodeRecord(*life, self.url, state, "", self.stats.dump(), end_of(now, TTL)))


class Stand:
    """A router and what a test does to it. `now` is the time by which leases run out."""

    def __init__(self, store: MemoryStore, stack: AsyncExitStack) -> None:
        self.store = store
        self.now = 1_000_000.0
        self.port = 0
        self._stack = stack

    async def node(self, name: str = "n1", tools: Iterable[str] = ("book",), answer: Answer | None = None) -> Actor:

        async def fine(reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(ok(b"fine", f"framehold-node: {name}"))

        actor = Actor(name, tools, answer or fine)
        actor.wire = await self._stack.enter_async_context(node(actor))
        actor.wire.boot = actor.boot
        await self.store.register(actor.lease(self.now), TTL)
        return actor

    async def renew(self, actor: Actor, state: str = "live") -> None:
        await self.store.renew(actor.lease(self.now, state), actor.beat - 1, TTL)

    async def client(self) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self.port))
        self._stack.callback(client.writer.close)
        return client

    async def ask(self, data: bytes) -> Reply:
        return await (await self.client()).ask(data)

    async def text(self) -> str:
        return (await self.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")).body.decode()

    async def scrape(self) -> dict[Series, float]:
        return samples(await self.text())

    async def until(self, wanted: Series, value: float) -> None:
        while (await self.scrape()).get(wanted) != value:
            self.store._feed.notify()

    @asynccontextmanager
    async def moves(self, *exact: str) -> AsyncIterator[dict[Series, float]]:
        """By how much each series of these metrics is another at the end, if it is."""
        before, moved = await self.scrape(), dict[Series, float]()
        yield moved
        after = await self.scrape()
        changes = {key: after[key] - before.get(key, 0.0) for key in after if key[0].startswith(tuple(exact))}
        moved.update({key: change for key, change in changes.items() if change})


@asynccontextmanager
async def stand(monkeypatch: pytest.MonkeyPatch, **settings: Any) -> AsyncIterator[Stand]:
    """A router, put together and run as ever, but for its store, and the clock by which it tells when nodes were seen;
    and a survey is made for each who asks."""
    async with AsyncExitStack() as stack, asyncio.timeout(DEADLINE):
        it = Stand(MemoryStore(lambda: it.now), stack)
        monkeypatch.setattr(app, "open_store", lambda config, clock: it.store)
        monkeypatch.setattr(shared_look, "FRESH", 0.0)
        monkeypatch.setattr(app, "Departures", lambda wall: Departures(lambda: it.now))
        listening = socket.create_server(("127.0.0.1", 0))
        it.port = listening.getsockname()[1]
        chosen = RouterSettings(keys=(KEY,), store_url="redis://127.0.0.1", connect_timeout=DEADLINE, **settings)
        await stack.enter_async_context(app.running(chosen, listening))
        yield it
