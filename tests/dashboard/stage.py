"""A fleet of real processes to look at: three nodes, a router with an admin token, a Redis, and calls that wait.

The law: a test that kills or drains a node brings that node along, and calls of its own; the three stay as they are.
The event log is empty until a test brings a node, and waits for its event.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.kit.client import Caller, Reply
from tests.kit.fleet import Fleet, RouterProcess
from tests.kit.nodes import NodeProcess
from tests.kit.operators import SHOWN, TOKEN, call_of
from tests.kit.redis_server import RedisServer

LEASE_TTL = 2.0
NODES = ("harbour", "lagoon", "meadow")
PARKED = (("book_trip", 4), ("refund", 5), ("sign_contract", 3))
"""Tools of the agency, and how many calls of each wait from the start."""
SOON = 20.0


class Stage:
    """The fleet, and whoever calls its tools."""

    def __init__(self, fleet: Fleet, caller: Caller, http: httpx2.AsyncClient) -> None:
        self.fleet, self._caller, self._http = fleet, caller, http
        self.calls: list[tuple[str, Reply]] = []
        """The calls that wait from the start: tool and last answer."""
        self._names = (f"orchard-{number}" for number in itertools.count(1))

    @property
    def root(self) -> str:
        """The router's address."""
        return str(self._http.base_url).rstrip("/")

    async def open_root(self) -> str:
        """The address of another router, which has no admin token."""
        if len(self.fleet.routers) == 1:
            await self.fleet.add_router()
        return self.fleet.routers[1].root

    async def get(self, path: str) -> Any:
        """What the API tells who has the token."""
        result = await self._http.get(f"/api/v1/{path}", headers=SHOWN)
        assert result.status_code == 200, result.text
        return result.json()

    async def until(self, path: str, true: Any) -> Any:
        """Look until what is told is so."""
        async with asyncio.timeout(SOON):
            while not true(result := await self.get(path)):
                await asyncio.sleep(0.05)
        return result

    async def call(self, tool: str) -> Reply:
        """A new call, and what its first request came to."""
        return await self._caller.call(tool)

    async def ask(self, tool: str) -> Reply:
        """A new call, up to its first question."""
        reply = await self.call(tool)
        assert reply.token, reply
        return reply

    async def answer(self, tool: str, reply: Reply) -> Reply:
        """Its next round."""
        return await self._caller.retry(tool, reply.token, reply.accept(word="yes"))

    async def work(self, seconds: float) -> None:
        """Have a node busy with a handler."""
        await self._caller.call("summarise", arguments={"seconds": seconds})

    async def parked_at(self, node: str, tool: str = "refund") -> tuple[str, Reply]:
        """A new call that waits on this node: its id, and its last answer."""
        async with asyncio.timeout(SOON):
            while True:
                reply = await self.ask(tool)
                if reply.headers["framehold-node"] == node:
                    return call_of(reply.token), reply

    @asynccontextmanager
    async def another_node(self) -> AsyncIterator[tuple[str, NodeProcess]]:
        """One more node, for a test that ends it: its name and process."""
        name = next(self._names)
        await self.fleet.start_nodes(name)
        node = self.fleet.nodes[name]
        try:
            await self.until(
                "ring", lambda result: name in {one["node_id"] for one in result["nodes"] if one["points"]}
            )
            yield name, node
        finally:
            self.fleet.nodes.pop(name).kill()
            await self.until("ring", lambda result: name not in {one["node_id"] for one in result["nodes"]})


@asynccontextmanager
async def stage(folder: Path, redis: RedisServer) -> AsyncIterator[Stage]:
    """The fleet with its waiting calls, some of which have been answered before."""
    settings = {"lease_ttl": f"{LEASE_TTL:g}", "drain_timeout": "30", "token_ttl": "1800"}
    fleet = Fleet(folder, redis, "tests/dashboard/agency.py", **settings)
    try:
        await fleet.start_nodes(*NODES)
        router = RouterProcess(folder / "router.log", **fleet.common, FRAMEHOLD_ADMIN_TOKEN=TOKEN)
        fleet.routers.append(router)
        await router.start()
        async with Caller(router.url) as caller, httpx2.AsyncClient(base_url=router.root) as http:
            made = Stage(fleet, caller, http)
            await made.until("ring", lambda result: sum(node["points"] > 0 for node in result["nodes"]) == len(NODES))
            for tool, count in PARKED:
                made.calls += [(tool, await made.ask(tool)) for _ in range(count)]
            made.calls[0] = ("book_trip", await made.answer(*made.calls[0]))
            yield made
    finally:
        # Calls that wait would keep a node that is asked to end.
        for child in (*fleet.routers, *fleet.nodes.values()):
            child.kill()
