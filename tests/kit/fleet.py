"""A fleet of real processes: nodes, routers, load balancers, one Redis; and what its client sees of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import socket
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import TextContent

from framehold_cli.local.ports import free as free_port
from framehold_fleet.identity.trust import Trust
from tests.kit.answering import echo
from tests.kit.nodes import KEY, FrameholdProcess, NodeProcess, entries
from tests.kit.processes import DEADLINE, Child
from tests.kit.redis_server import RedisServer

TARGET = "tests/node/three_rounds.py"
PLANE_KEY = Trust([KEY.encode()]).plane_key


class Rooted(Protocol):
    """Whatever HAProxy may stand before."""

    @property
    def root(self) -> str:
        """Its address without a path."""


class Stored(Protocol):
    """Whatever nodes may keep their calls in."""

    @property
    def url(self) -> str:
        """How they are told of it."""


class RouterProcess(FrameholdProcess):
    """One `framehold router` child."""

    def __init__(self, log: Path, **environment: str) -> None:
        super().__init__(["router", "--port", "0"], log, **environment)

    async def nodes(self) -> list[dict[str, Any]]:
        """What it says of the nodes."""
        async with httpx2.AsyncClient() as http:
            result = await http.get(f"{self.root}/api/v1/nodes")
        found: list[dict[str, Any]] = result.json()["nodes"]
        return found

    async def overview(self) -> dict[str, Any]:
        """What it says of the fleet."""
        async with httpx2.AsyncClient() as http:
            found: dict[str, Any] = (await http.get(f"{self.root}/api/v1/overview")).json()
        return found

    async def knows(self, *names: str) -> None:
        """Wait until it sends requests to just these nodes."""
        async with httpx2.AsyncClient() as http, asyncio.timeout(DEADLINE):
            while True:
                result = (await http.get(f"{self.root}/api/v1/ring")).json()
                if {node["node_id"] for node in result["nodes"] if node["points"]} == set(names):
                    return
                await asyncio.sleep(0.02)


class Fleet:
    """Children of one test, in a namespace of its own. `common` are settings of all, by `FRAMEHOLD_*` name."""

    def __init__(self, folder: Path, store: Stored, target: str = TARGET, **settings: str) -> None:
        self.folder, self.target = folder, target
        self.entered = folder / "entries"
        usual = {"store_url": store.url, "namespace": folder.name, "lease_ttl": "3", "route_headers": "true"}
        named = {f"FRAMEHOLD_{name.upper()}": value for name, value in (usual | settings).items()}
        self.common = {**named, "ENTRIES": str(self.entered)}
        self.nodes: dict[str, NodeProcess] = {}
        self.ports: dict[str, int] = {}
        """Where nodes of these names listen, each time that they are started; others anywhere."""
        self.serving: set[str] = set()
        """The names of those whose start is over."""
        self.routers: list[RouterProcess] = []
        self._numbers = itertools.count()

    def own(self, name: str) -> dict[str, str]:
        """What one node is told otherwise than all."""
        return {}

    async def start_nodes(self, *names: str, **environment: str) -> None:
        """Start nodes side by side; `environment` is for these alone."""
        fresh = {
            name: NodeProcess(
                self.target,
                self.folder / f"{name}.log",
                self.ports.get(name, 0),
                **{**self.common, **self.own(name), **environment, "FRAMEHOLD_NODE_ID": name},
            )
            for name in names
        }
        self.nodes |= fresh
        await asyncio.gather(*(node.start() for node in fresh.values()))
        self.serving |= fresh.keys()

    async def add_nodes(self, *names: str, **environment: str) -> None:
        """Start nodes, and wait until all routers know them."""
        await self.start_nodes(*names, **environment)
        for router in self.routers:
            await router.knows(*self.nodes)

    async def start_router(self, **settings: str) -> RouterProcess:
        """Start a router."""
        named = {f"FRAMEHOLD_{name.upper()}": value for name, value in settings.items()}
        log = self.folder / f"router-{next(self._numbers)}.log"
        router = RouterProcess(log, **{**self.common, **named})
        self.routers.append(router)
        await router.start()
        return router

    async def add_router(self, **settings: str) -> RouterProcess:
        """Start a router that knows all nodes."""
        router = await self.start_router(**settings)
        await router.knows(*self.nodes)
        return router

    async def remove_node(self, name: str) -> None:
        """End a node in good order, and wait until routers know."""
        self.nodes.pop(name).stop()
        for router in self.routers:
            await router.knows(*self.nodes)

    def stop(self) -> None:
        for child in (*self.routers, *self.nodes.values()):
            child.stop()

    def entries(self) -> Counter[str]:
        """How often each call's handler was entered."""
        return Counter(entries(self.entered))

    def complaints(self) -> list[str]:
        """What any child logged that nobody should have to read."""
        logs = [child.log() for child in (*self.routers, *self.nodes.values())]
        bad = ("Traceback", "WARNING", "ERROR", "CRITICAL")
        return [line for log in logs for line in log.splitlines() if any(word in line for word in bad)]


@asynccontextmanager
async def fleet(
    folder: Path, redis: RedisServer, *names: str, target: str = TARGET, **settings: str
) -> AsyncIterator[Fleet]:
    """Running nodes, without a router."""
    made = Fleet(folder, redis, target, **settings)
    try:
        await made.add_nodes(*names)
        yield made
    finally:
        made.stop()


@asynccontextmanager
async def haproxy(folder: Path, template: Path, nodes: Mapping[str, Rooted]) -> AsyncIterator[str]:
    """Debian's HAProxy in front of nodes, by their names, as `template` configures it but for its port and its servers;
    yields its URL."""
    binary = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    assert binary, "haproxy is not installed: run tests/system_packages.sh (apt-get install haproxy)"
    servers = "\n".join(f"    server {name} {node.root.removeprefix('http://')}" for name, node in nodes.items())
    port = free_port()
    config = folder / "haproxy.cfg"
    filled = template.read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}")
    marked = [line for line in filled.splitlines() if not line.strip().startswith("server ")]
    config.write_text("\n".join([*marked, servers, ""]))
    env = {**os.environ, "FRAMEHOLD_SECRET": PLANE_KEY}
    child = Child([binary, "-db", "-f", str(config)], folder / "haproxy.log", env=env)
    child.launch()
    try:
        await child.until(lambda: listens(port), "haproxy's start")
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        child.kill()


def listens(port: int) -> bool:
    """Whether somebody accepts connections at a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Watched:
    """What clients saw: results by name, the nodes that served each name's rounds in order, and how."""

    said: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    routes: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)

    async def note(self, response: httpx2.Response) -> None:
        """An event hook of the client's HTTP library."""
        body = json.loads(response.request.content or b"{}")
        name = body.get("params", {}).get("arguments", {}).get("name")
        if body.get("method") == "tools/call":
            self.statuses[response.status_code] += 1
            self.nodes[name].append(response.headers.get("framehold-node", ""))
            self.routes[response.headers.get("framehold-route", "")] += 1


async def converse(
    urls: list[str], names: list[str], *, clients: int = 20, before: Callable[[httpx2.Request], Any] | None = None
) -> Watched:
    """Call `three` once for each name with the official client, all at once, over `clients` connections' worth of
    clients that take the URLs in turn."""
    watched = Watched()

    async def talk(url: str, mine: list[str]) -> None:
        hooks: dict[str, list[Any]] = {"response": [watched.note], "request": [before] if before else []}
        async with httpx2.AsyncClient(event_hooks=hooks, timeout=60) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, elicitation_callback=echo) as client:

                async def call(name: str) -> None:
                    result = await client.call_tool("three", {"name": name})
                    (block,) = result.content
                    assert not result.is_error and isinstance(block, TextContent), result
                    watched.said[name] = block.text

                await asyncio.gather(*map(call, mine))

    await asyncio.gather(*(talk(urls[start % len(urls)], names[start::clients]) for start in range(clients)))
    return watched
