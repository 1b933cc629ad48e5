"""The fleet of the operated day: three nodes and two routers, traffic through both, and a dashboard open at each."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser

from framehold_cli.local.ports import free as free_port
from tests.fleet.day import mounted
from tests.fleet.day.office import MENDED
from tests.fleet.day.prometheus import NODE, ROUTER, Target
from tests.fleet.day.traffic import Traffic
from tests.fleet.day.voices import ask, command
from tests.kit.browser import Screen, screen
from tests.kit.client import Reply
from tests.kit.fleet import Fleet, RouterProcess
from tests.kit.nodes import NodeProcess
from tests.kit.operators import TOKEN
from tests.kit.redis_server import RedisServer
from tests.kit.redis_topologies import SentinelTrio

NODES = ("harbour", "lagoon", "meadow")
TARGET = "tests/fleet/day/office.py"
_SETTINGS = {"lease_ttl": "3", "drain_timeout": "10", "admin_token": TOKEN}
GROUP = 60_001
"""The group of the first router, where each has one of its own."""
SOON = 30.0
"""Seconds after which something that should have happened has not."""


async def eventually(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Look again and again until it holds."""
    end = time.monotonic() + SOON
    while not await holds():
        assert time.monotonic() < end, f"{what}: not within {SOON:g} s"
        await asyncio.sleep(0.1)


def in_group(number: int) -> tuple[str, ...]:
    """How a router is started in a group of its own."""
    return ("setpriv", "--regid", str(GROUP + number), "--clear-groups")


class Day:
    """The fleet, its traffic, and whoever looks at it."""

    def __init__(self, fleet: Fleet, redis: RedisServer, browser: Browser, stack: AsyncExitStack) -> None:
        self.fleet, self.redis, self.stack = fleet, redis, stack
        self._browser = browser
        self.traffic: Traffic
        self.screens: list[Screen] = []
        """The dashboard that is open at each router."""
        self.poisoned: Reply
        """The question of the call that ends processes."""
        self.mended = fleet.folder / "mended"
        """The file of the mended release (`office`)."""
        self.mounted = False
        """Whether the nodes are parts of another app (`mounted`)."""
        self.disk: Path
        """The folder of the store's journal, where a scene fills its disk."""
        self.trio: SentinelTrio
        """The store, where a scene kills its master."""

    @property
    def root(self) -> str:
        """The address of a router."""
        return self.fleet.routers[0].root

    @property
    def url(self) -> str:
        """Where clients call."""
        return self.fleet.routers[0].url

    async def start(self) -> None:
        """Start all processes, and open the dashboards."""
        self.fleet.ports = {name: free_port() for name in NODES}
        if self.mounted:
            for name in NODES:
                where = f"http://127.0.0.1:{self.fleet.ports[name]}"
                await self.start_as(name, sys.executable, "-m", mounted.__name__, FRAMEHOLD_ADVERTISE_URL=where)
        else:
            await self.fleet.start_nodes(*NODES)
        for number in range(2):
            await self._open(await self._router(number))
        await eventually(self.whole, "routers that know all nodes")
        path = mounted.PATH if self.mounted else ""
        self.traffic = Traffic([f"{router.root}{path}/mcp" for router in self.fleet.routers])

    async def _router(self, number: int) -> RouterProcess:
        """A router in a group of its own, by which a rule of the firewall finds it."""
        log = self.fleet.folder / f"router-{number}.log"
        router = RouterProcess(log, **self.fleet.common).under(*in_group(number))
        self.fleet.routers.append(router)
        await router.start()
        return router

    async def whole(self) -> bool:
        """Whether all routers send calls to all nodes."""
        for router in self.fleet.routers:
            ring = await ask(router.root, "ring")
            if sum(node["points"] > 0 for node in ring["nodes"]) < len(NODES):
                return False
        return True

    async def restart(self, name: str) -> None:
        """Start a node that has ended, under its own name, as a supervisor does."""
        self.fleet.nodes[name].stop()
        await self.fleet.start_nodes(name)

    async def roll(self, name: str) -> None:
        """Stop a node in good order, and start it again."""
        self.fleet.nodes[name].terminate()
        await self.fleet.nodes[name].ends()
        await self.restart(name)

    async def run(self, *words: str) -> None:
        """Run a command of an operator."""
        code, out = await command(self.root, *words)
        assert code == 0, out

    def targets(self) -> dict[Target, str]:
        """What Prometheus scrapes, and where."""
        path = mounted.PATH if self.mounted else ""
        nodes = {Target(NODE, name): f"http://127.0.0.1:{port}{path}" for name, port in self.fleet.ports.items()}
        routers = {Target(ROUTER, f"router-{number}"): router.root for number, router in enumerate(self.fleet.routers)}
        return {**nodes, **routers}

    async def is_well(self) -> bool:
        """Whether no router reports a problem."""
        return not any([(await ask(router.root, "overview"))["problems"] for router in self.fleet.routers])

    async def start_as(self, name: str, *command: str, target: str = TARGET, **environment: str) -> None:
        """Start one more node, or another one of a name, by a command that stands before its own."""
        if old := self.fleet.nodes.pop(name, None):
            old.stop()
        changed = {**self.fleet.common, **environment, "FRAMEHOLD_NODE_ID": name}
        made = NodeProcess(target, self.fleet.folder / f"{name}.log", self.fleet.ports.get(name, 0), **changed)
        self.fleet.nodes[name] = made.under(*command)
        await made.start()

    async def _open(self, router: RouterProcess) -> None:
        opened = await self.stack.enter_async_context(screen(self._browser, router.root))
        # What a page can't load while its router is gone is of the scene.
        opened.expects("")
        await opened.open("")
        self.screens.append(opened)


@asynccontextmanager
async def day(folder: Path, browser: Browser, prepare: Callable[[Day], Awaitable[None]]) -> AsyncIterator[Day]:
    """A day that has begun. It ends as it is; what its clients met is for the scene to say. It is prepared when its
    store runs, and nothing else."""
    redis = RedisServer(options=("--maxmemory-policy", "noeviction", "--enable-protected-configs", "yes"))
    fleet = Fleet(folder, redis, TARGET, **_SETTINGS)
    fleet.common[MENDED] = str(folder / "mended")
    redis.start()
    try:
        async with AsyncExitStack() as stack:
            made = Day(fleet, redis, browser, stack)
            await prepare(made)
            await made.start()
            running = asyncio.create_task(made.traffic.run())
            try:
                yield made
            finally:
                running.cancel()
    finally:
        for child in (*fleet.routers, *fleet.nodes.values()):
            child.kill()
        redis.remove()
