"""Fleets to which everything happens, and what can be done to them."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from framehold_store.keys import Keys
from tests.fleet.ledger import VARIABLE, Ledger
from tests.fleet.line import Line
from tests.fleet.trial import LOST, Trial
from tests.kit.client import Reply
from tests.kit.fleet import Fleet, Stored
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer

TARGET = "tests/fleet/trials.py"
MARKED, UNMARKED = "marked", "unmarked"
"""The two columns: tools that may be entered again, and tools that may not."""
EFFECTS = ["first", "second", "third", "fourth"]
"""Those of an errand (`trials`), in order."""
TTL = 1.0
"""The lease of every node, in seconds, unless a test says otherwise."""
DEADLINE = 3
"""Seconds for which a draining node waits for calls that nobody else may carry on."""
_USUAL = {"lease_ttl": f"{TTL:g}", "drain_timeout": str(DEADLINE)}


class TrialFleet(Fleet):
    """Nodes named n1, n2, ... and never alike again, which serve the tools on trial over any store, and their
    ledger."""

    def __init__(self, folder: Path, store: Stored, **settings: str) -> None:
        self.ledger = Ledger(folder / "ledger")
        self._names = (f"n{number}" for number in itertools.count(1))
        super().__init__(folder, store, TARGET, **(_USUAL | settings))
        self.common[VARIABLE] = str(self.ledger.path)

    async def grow(self, count: int = 1) -> list[str]:
        """Start nodes that all routers know then; their names."""
        names = list(itertools.islice(self._names, count))
        await self.add_nodes(*names)
        return names

    async def successors(self, count: int = 1) -> None:
        """Start nodes, whoever may hear of them at present."""
        await self.start_nodes(*itertools.islice(self._names, count))

    def kill(self, name: str) -> None:
        """SIGKILL a node."""
        self.nodes[name].kill()
        self.bury(name)

    def bury(self, name: str) -> None:
        """Forget a node that has ended."""
        self.nodes.pop(name).stop()

    def url(self, name: str) -> str:
        """Where a node is."""
        return self.nodes[name].url

    async def ready(self, name: str, takes: bool = True) -> None:
        """Wait until a node says that it takes new calls, or that it takes none."""
        root, wanted = self.nodes[name].root, 200 if takes else 503
        await until(lambda: _status(f"{root}/readyz") == wanted, f"{name}: {wanted} at /readyz")

    def other(self, *names: str) -> str:
        """A node that is none of these."""
        return next(name for name in self.nodes if name not in names)

    def shut(self, call: str) -> None:
        """Whoever comes to this call's gate waits."""
        (self.folder / f"gate-{call}").touch()

    def open(self, call: str) -> None:
        """Whoever waits at this call's gate goes on."""
        (self.folder / f"gate-{call}").unlink()

    async def at_its_gate(self, call: Trial, url: str) -> asyncio.Task[Reply]:
        """Answer the first question of a call at `url`: the round that follows stands at the gate of the call, which
        `open` opens."""
        self.shut(call.name)
        request = call.answering(url)
        await self.ledger.has(call.name, "runs")
        return request

    def judge(self) -> None:
        """What must hold at any time, whatever was done to the fleet: each effect at most once, no unmarked handler
        entered twice, no process that met a bug."""
        assert self.ledger.repeated() == []
        unmarked = {line.call for line in self.ledger.lines(what="entered") if UNMARKED in line.call}
        assert self.ledger.entered_again(unmarked) == []
        assert self.buggy() == []

    def buggy(self) -> list[str]:
        """The processes whose logs tell of a bug, by the names of their logs."""
        logs = {path.name: path.read_text() for path in self.folder.glob("*.log")}
        return sorted(name for name, log in logs.items() if "met a bug" in log or "Traceback" in log)

    async def completes(self, calls: Iterable[Trial], *urls: str, entered: int | None = None) -> None:
        """These errands come to their right ends, with each effect once."""
        calls = list(calls)
        assert await asyncio.gather(*(call.finish(*urls) for call in calls)) == [call.done for call in calls]
        for call in calls:
            assert self.ledger.effects(call.name) == EFFECTS
            assert entered in (None, self.ledger.count(call.name, "entered")), call.name

    async def is_lost(self, call: Trial, *urls: str, ran: list[str]) -> None:
        """The client of a call is told at each of these places that it is lost; it was entered once, and ran so far."""
        for url in urls:
            result = await call.insist(url)
            assert result.result["isError"] and LOST in result.text, result.message
        assert self.ledger.effects(call.name) == ran and self.ledger.count(call.name, "entered") == 1

    def stop(self) -> None:
        for child in (*self.routers, *self.nodes.values()):
            child.kill()


class FaultyFleet(TrialFleet):
    """Each node has a line of its own to one redis-server that outlives its own death. `mend` makes up for what was
    done to any of them."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.redis = RedisServer(appendonly=True)
        self.redis.start()
        self._down = False
        self.lines: dict[str, Line] = {}
        self._leaving: set[str] = set()
        self.whole = (0, 0)
        """How many nodes and routers belong here."""
        super().__init__(folder, self.redis, **settings)

    def own(self, name: str) -> dict[str, str]:
        """Each node reaches the store over its own line."""
        line = self.lines[name] = Line(self.redis.port)
        return {"FRAMEHOLD_STORE_URL": f"redis://127.0.0.1:{line.port}"}

    async def mend(self) -> None:
        """Whatever is stopped runs again, whatever died has a successor, everybody hears everybody."""
        self.restore()
        for name, node in tuple(self.nodes.items()):
            self.lines[name].heal()
            if node.alive and node.url and name not in self._leaving:
                node.resume()
            else:
                self.kill(name)
        for router in tuple(self.routers):
            if not router.alive:
                self.routers.remove(router)
                router.stop()
        nodes, routers = self.whole
        await self.grow(max(0, nodes - len(self.nodes)))
        for _ in range(len(self.routers), routers):
            await self.add_router()
        for router in self.routers:
            await router.knows(*self.nodes)

    def pause(self, name: str) -> None:
        """SIGSTOP a node."""
        self.nodes[name].pause()

    async def woken(self, name: str) -> None:
        """SIGCONT a node, and wait until it has a lease again."""
        self.nodes[name].resume()
        await self.registered(name)

    def drain(self, name: str) -> None:
        """SIGTERM a node."""
        self._leaving.add(name)
        os.kill(self.nodes[name].pid, signal.SIGTERM)

    async def left(self, name: str) -> None:
        """Wait until a node that drains has ended, and forget it."""
        await until(lambda: not self.nodes[name].alive, f"the end of {name}")
        self.bury(name)

    def kill_store(self) -> None:
        """SIGKILL redis-server. What it acknowledged is in its append-only file."""
        self._down = True
        self.redis.kill()

    def fill_store(self) -> None:
        """From now on the store answers reads and refuses writes: it has used all its memory."""
        self._limit_memory(1)

    def restore(self) -> None:
        """A store that was killed is started again, one that was paused goes on, one that was full has room."""
        if self._down:
            self._down = False
            self.redis.start()
        self.redis.resume()
        self._limit_memory(0)

    def _limit_memory(self, limit: int) -> None:
        """Set how many bytes the store may use; 0 is no limit."""
        with self.redis.client() as client:
            client.config_set("maxmemory", limit)

    def bury(self, name: str) -> None:
        super().bury(name)
        self.lines.pop(name).close()

    async def restarted(self, name: str, **environment: str) -> None:
        """Kill a node, and start it again under its own name."""
        self.kill(name)
        await self.add_nodes(name, **environment)

    def lease(self, name: str) -> bytes | None:
        """A node's lease, as the store has it; None where there is none."""
        with self.redis.client() as client:
            found = client.get(Keys(self.folder.name).node(name))
        assert found is None or isinstance(found, bytes)
        return found

    async def lapsed(self, name: str) -> None:
        """Wait until a node's lease has run out in the store."""
        await until(lambda: self.lease(name) is None, f"the end of {name}'s lease")

    async def registered(self, name: str) -> None:
        """Wait until a node has a lease in the store."""
        await until(lambda: self.lease(name) is not None, f"a lease of {name}")

    def record(self, token: str) -> dict[str, str]:
        """The record of a token's call, as the store has it."""
        with self.redis.client() as client:
            raw: Any = client.hgetall(Keys(self.folder.name).call(token.split(".")[1])[0])
        return {key.decode(): value.decode("latin-1") for key, value in raw.items()}

    def stop(self) -> None:
        super().stop()
        for line in self.lines.values():
            line.close()
        self.redis.remove()


@contextmanager
def standing(folder: Path, nodes: int, routers: int, **settings: str) -> Iterator[FaultyFleet]:
    """A running fleet for whoever has no loop yet, or many; judged at its end."""
    made = FaultyFleet(folder, **settings)
    try:
        asyncio.run(started(made, nodes, routers))
        yield made
        made.judge()
    finally:
        made.stop()


async def started(made: FaultyFleet, nodes: int, routers: int) -> None:
    """Start so many nodes and routers; `mend` keeps as many."""
    made.whole = nodes, routers
    await made.grow(nodes)
    for _ in range(routers):
        await made.add_router()


def _status(url: str) -> int:
    """What is answered there; 0 where nobody is."""
    try:
        return httpx2.get(url, timeout=5).status_code
    except httpx2.TransportError:
        return 0
