"""The fleet of the operated day: three nodes and two routers, traffic through both, and a dashboard open at each."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from playwright.async_api import Browser

from framehold_cli.local.ports import free as free_port
from tests.dashboard.screen import Screen, screen
from tests.fleet.day import metrics, mounted
from tests.fleet.day.metrics import NODE, ROUTER, Scrape, Target
from tests.fleet.day.office import MENDED
from tests.fleet.day.traffic import Traffic
from tests.fleet.day.voices import Problem, Voices, ask, command, voices
from tests.fleet.fleet import Fleet, RouterProcess
from tests.node.nodes import NodeProcess
from tests.node.operating import TOKEN
from tests.processes import RUN
from tests.store.server import RedisServer
from tests.store.topologies import SentinelTrio
from tests.wire import Reply

NODES = ("harbour", "lagoon", "meadow")
TARGET = "tests/fleet/day/office.py"
_SETTINGS = {"lease_ttl": "3", "drain_timeout": "10", "admin_token": TOKEN}
_LATER = """
import runpy
from framehold_core.clock import Clock
time = Clock.time
Clock.time = lambda clock: time(clock) + 3700
runpy.run_module("framehold", run_name="__main__", alter_sys=True)
"""
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


class LaterRouter(RouterProcess):
    """A router whose clock is more than an hour ahead: it reports what all routers will report then."""

    def __init__(self, log: Path, **environment: str) -> None:
        super().__init__(log, **environment)
        self._command = [sys.executable, "-c", _LATER, *self._command[len(RUN) :]]


class Day:
    """The fleet, its traffic, and whoever looks at it."""

    def __init__(
        self, fleet: Fleet, redis: RedisServer, browser: Browser, stack: AsyncExitStack, *, alone: bool = False
    ) -> None:
        self.fleet, self.redis, self.stack = fleet, redis, stack
        self._alone = alone
        self._browser = browser
        self.traffic: Traffic
        self.screens: list[tuple[str, Screen]] = []
        """The address of each router, and the dashboard that is open there."""
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
        """A router; of a scene for itself in a group of its own, by which a rule of the firewall finds it."""
        if not self._alone:
            return await self.fleet.start_router()
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

    async def scrape(self) -> Scrape:
        """What Prometheus would read now."""
        return await metrics.scrape(self.targets())

    async def voices(self) -> list[Voices]:
        """The reports at each router."""
        return [await voices(root, screen) for root, screen in self.screens]

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[set[Problem]]:
        """Watch what the routers report meanwhile; all of it."""
        seen: set[Problem] = set()
        task = asyncio.create_task(self._watch(seen))
        try:
            yield seen
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def start_as(self, name: str, *command: str, target: str = TARGET, **environment: str) -> None:
        """Start one more node, or another one of a name, by a command that stands before its own."""
        if old := self.fleet.nodes.pop(name, None):
            old.stop()
        changed = {**self.fleet.common, **environment, "FRAMEHOLD_NODE_ID": name}
        made = NodeProcess(target, self.fleet.folder / f"{name}.log", self.fleet.ports.get(name, 0), **changed)
        self.fleet.nodes[name] = made.under(*command)
        await made.start()

    async def an_hour_later(self) -> None:
        """From now on look through a router whose clock is an hour ahead."""
        router = LaterRouter(self.fleet.folder / "later.log", **self.fleet.common)
        self.fleet.routers.append(router)
        await router.start()
        self.screens.clear()
        await self._open(router)

    async def _watch(self, seen: set[Problem]) -> None:
        while True:
            for root, _ in self.screens:
                overview = await ask(root, "overview")
                seen |= {Problem(*(one[part] for part in Problem._fields)) for one in overview["problems"]}
            await asyncio.sleep(0.2)

    async def _open(self, router: RouterProcess) -> None:
        opened = await self.stack.enter_async_context(screen(self._browser, router.root))
        if self._alone:
            # What a page can't load while its router is gone is of the scene.
            opened.expects("")
        await opened.open("")
        self.screens.append((router.root, opened))


@asynccontextmanager
async def day(
    folder: Path, browser: Browser, prepare: Callable[[Day], Awaitable[None]] | None = None, *, alone: bool = False
) -> AsyncIterator[Day]:
    """A day that has begun. The day of one scene `alone` ends as it is; what its clients met is for the scene to say.
    It is prepared when its store runs, and nothing else."""
    redis = RedisServer(options=("--maxmemory-policy", "noeviction", "--enable-protected-configs", "yes"))
    fleet = Fleet(folder, redis, TARGET, **_SETTINGS)
    fleet.common[MENDED] = str(folder / "mended")
    redis.start()
    try:
        async with AsyncExitStack() as stack:
            made = Day(fleet, redis, browser, stack, alone=alone)
            if prepare is not None:
                await prepare(made)
            await made.start()
            running = asyncio.create_task(made.traffic.run())
            try:
                yield made
            finally:
                made.traffic.stop()
                if alone:
                    running.cancel()
            if not alone:
                await asyncio.wait_for(running, SOON)
                assert made.traffic.wrong == []
    finally:
        for child in (*fleet.routers, *fleet.nodes.values()):
            child.kill()
        redis.remove()
