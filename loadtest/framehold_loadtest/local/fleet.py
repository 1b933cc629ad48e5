"""A fleet under load: nodes `n1`, `n2`, ..., routers `r1`, ..., and one store, with faults for each of them.

Law: a method returns when its effect shows. An added node is on every router's ring, a removed node is on none, and a
restarted store answers.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from framehold_loadtest.local import probe
from framehold_loadtest.local.listeners import await_redis, durable_redis, framehold_port, haproxy
from framehold_loadtest.local.process import NotAvailable, Process, python, within

ROUTER, ROUND_ROBIN = "router", "round-robin"
_SERVED = Path(__file__).parents[1] / "served" / "booking.py"
_SEEN_SECONDS = 60.0
_LEAVE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FleetPlan:
    """What a fleet is made of. `guarded` and `reentrant` are false only to break something on purpose; `slow` is how
    many seconds the booking server's last round takes; `target` is another server's file. `route_headers`:
    whether responses say which node served them; what is to cost as much as a user's fleet has the default setting,
    which is off."""

    nodes: int = 3
    routers: int = 1
    strategy: str = "hold"
    front: str = ROUTER
    lease_ttl: float = 5.0
    guarded: bool = True
    reentrant: bool = True
    slow: float = 0.0
    target: Path | None = None
    route_headers: bool = True


class Fleet:
    """All processes by name, in `folder` with their logs and the ledger."""

    def __init__(self, folder: Path, plan: FleetPlan) -> None:
        self.plan, self._folder = plan, folder
        self.ledger = folder / "ledger"
        self.nodes: dict[str, Process] = {}
        self.routers: dict[str, Process] = {}
        self.ports: dict[str, int] = {}
        """Where each node and router listens at present."""
        self.url = ""
        self._number = 0
        self.store, self.store_port = durable_redis(folder)
        self._settings = {
            "FRAMEHOLD_KEYS": secrets.token_hex(32),
            "FRAMEHOLD_STORE_URL": f"redis://127.0.0.1:{self.store_port}",
            "FRAMEHOLD_LEASE_TTL": f"{plan.lease_ttl:g}",
            "FRAMEHOLD_STRATEGY": plan.strategy,
            "FRAMEHOLD_ROUTE_HEADERS": str(plan.route_headers),
            "FRAMEHOLD_MAX_PARKED_PER_PRINCIPAL": "20000",
            "LOADTEST_LEDGER": str(self.ledger),
            "LOADTEST_GUARDED": str(plan.guarded),
            "LOADTEST_REENTRANT": str(plan.reentrant),
            "LOADTEST_SLOW": f"{plan.slow:g}",
        }

    def start(self, stack: contextlib.ExitStack) -> None:
        """Start all of it; `stack` ends it again.

        Raises:
            NotAvailable: something can't be started; the message says what.
        """
        stack.callback(self.stop)
        self.store.start()
        await_redis(self.store, self.store_port)
        names = [self._begin_node() for _ in range(self.plan.nodes)]
        routers = [self._begin_router() for _ in range(self.plan.routers)] if self.plan.front == ROUTER else []
        for name in (*names, *routers):
            self._listens(name)
        self._await_ready(*names)
        self._await_ring()
        if self.plan.front == ROUND_ROBIN:
            front = stack.enter_context(haproxy([self.ports[name] for name in names])).port
        else:
            front = self.ports[routers[0]]
        self.url = f"http://127.0.0.1:{front}"

    def stop(self) -> None:
        """End every process. Idempotent."""
        for child in (*self.routers.values(), *self.nodes.values(), self.store):
            child.kill()

    def process(self, name: str) -> Process:
        """A process by its name: `store`, or a node's or a router's."""
        return self.store if name == "store" else {**self.routers, **self.nodes}[name]

    def pids(self) -> dict[str, int]:
        """The processes that run, by name."""
        # A copy first: another thread looks while this one adds and removes.
        found = {name: child.pid for name, child in [*self.routers.items(), *self.nodes.items()]}
        return {name: pid for name, pid in (found | {"store": self.store.pid}).items() if pid}

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.process(name).kill()

    def pause(self, name: str) -> None:
        """SIGSTOP."""
        self.process(name).pause()

    def resume(self, name: str) -> None:
        """SIGCONT."""
        self.process(name).resume()

    def restart(self, name: str) -> None:
        """Start what was killed or has ended, under its own name, and wait until it shows."""
        self.process(name).start()
        if name == "store":
            await_redis(self.store, self.store_port)
            return
        self._listens(name)
        if name in self.nodes:
            self._await_ready(name)
            self._await_ring()

    def roll(self, name: str) -> None:
        """A node leaves in good order, and its successor of the same name joins."""
        self._leave(name)
        self.restart(name)

    def add(self) -> str:
        """One more node; its name."""
        name = self._begin_node()
        self._listens(name)
        self._await_ready(name)
        self._await_ring()
        return name

    def remove(self, name: str) -> None:
        """A node leaves in good order, for good."""
        self._leave(name)
        del self.nodes[name]
        self._await_ring()

    def moved(self) -> float:
        """The part of the ring that its last change moved, as the first router says; 0 without one."""
        port = next((self.ports[name] for name in self.routers), 0)
        return float(probe.ring(port).get("moved", 0.0)) if port else 0.0

    def taken_over(self, besides: str) -> float:
        """How many calls all nodes but one have carried on for other processes so far."""
        return sum(probe.failovers(self.ports[name]) for name in self.nodes if name != besides)

    def _leave(self, name: str) -> None:
        child = self.nodes[name]
        if child.pid:
            child.signal(signal.SIGTERM)
            if child.wait(_LEAVE_SECONDS) is None:
                raise NotAvailable(f"{name} did not leave within {_LEAVE_SECONDS:g} s")
        child.stop()

    def _begin_node(self) -> str:
        self._number += 1
        name = f"n{self._number}"
        argv = python("framehold", "node", str(self.plan.target or _SERVED), "--port", "0")
        self.nodes[name] = Process(name, argv, self._log(name), {**self._settings, "FRAMEHOLD_NODE_ID": name})
        self.nodes[name].start()
        return name

    def _begin_router(self) -> str:
        name = f"r{len(self.routers) + 1}"
        self.routers[name] = Process(
            name, python("framehold", "router", "--port", "0"), self._log(name), self._settings
        )
        self.routers[name].start()
        return name

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _listens(self, name: str) -> None:
        self.ports[name] = framehold_port(self.process(name).announced())

    def _await_ready(self, *names: str) -> None:
        for port in (self.ports[name] for name in names):
            self._until(partial(_is_ready, port), "a node is not ready")

    def _await_ring(self) -> None:
        """Until every router's ring holds the nodes that run, and no other."""
        wanted = {name for name, child in self.nodes.items() if child.pid}
        for name in self.routers:
            self._until(partial(_holds, self.ports[name], wanted), f"{name} does not know the nodes")

    def _until(self, holds: Callable[[], bool], otherwise: str) -> None:
        deadline = within(_SEEN_SECONDS)
        while not holds():
            if time.monotonic() > deadline:
                raise NotAvailable(f"{otherwise} after {_SEEN_SECONDS:g} s; see the logs in {self._folder}")
            time.sleep(0.05)


def _is_ready(port: int) -> bool:
    return probe.get(port, "/readyz")[0] == 200


def _holds(port: int, nodes: set[str]) -> bool:
    return probe.on_ring(port) == nodes
