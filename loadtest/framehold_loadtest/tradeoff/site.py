"""Where an option is served: nodes by name, what stands in front of them, and the store if there is one.

Law: a method returns when its effect shows, as in `local.fleet`. On a site without a store, pausing the store does
nothing.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from framehold_loadtest import served
from framehold_loadtest.local.fleet import Fleet, FleetPlan
from framehold_loadtest.local.process import NotAvailable, Process, python
from framehold_loadtest.report.respects import PLACES
from framehold_loadtest.tradeoff.front import haproxy
from framehold_loadtest.tradeoff.pace import Pace

NODE, ROUTER, STORE = PLACES
BESIDE = "beside"
"""Where a process is that belongs to the measurement, and not to the site."""
_HELD = Path(served.__file__).with_name("held.py")
_LEAVE_SECONDS = 30.0


class Site(Protocol):
    """What a condition can do to an option, and what is measured of it."""

    ledger: Path

    @property
    def names(self) -> list[str]:
        """Its nodes."""

    @property
    def store_port(self) -> int:
        """Where its Redis listens; 0 without one."""

    def front(self, stack: contextlib.ExitStack, *, sticky: bool) -> int:
        """The port that clients call: with what the option needs to be `sticky`, or by turns."""

    def places(self) -> dict[int, str]:
        """The processes that run, each by its id, and whether they are a node, the router, the store or `BESIDE`."""

    def kill(self, name: str) -> None:
        """End a node at once."""

    def restart(self, name: str) -> None:
        """Start a node that has ended, and wait until it serves."""

    def roll(self, name: str) -> None:
        """A node leaves in good order, and its successor takes its place."""

    def pause_store(self) -> None:
        """The store stands still."""

    def resume_store(self) -> None:
        """It goes on."""


class FleetSite:
    """Framehold's own fleet, behind its router."""

    def __init__(self, folder: Path, pace: Pace, strategy: str, store_away: float = 0.0) -> None:
        plan = FleetPlan(
            nodes=pace.nodes,
            strategy=strategy,
            lease_ttl=pace.lease_ttl,
            target=_HELD,
            store_away=store_away,
            route_headers=False,
        )
        self.fleet = Fleet(folder, plan)
        self.ledger = self.fleet.ledger
        self.kill, self.restart, self.roll = self.fleet.kill, self.fleet.restart, self.fleet.roll
        self._proxies: set[int] = set()

    @property
    def names(self) -> list[str]:
        return list(self.fleet.nodes)

    @property
    def store_port(self) -> int:
        return self.fleet.store_port

    def start(self, stack: contextlib.ExitStack) -> None:
        """Start all of it; `stack` ends it again.

        Raises:
            NotAvailable: something can't be started.
        """
        self.fleet.start(stack)

    def front(self, stack: contextlib.ExitStack, *, sticky: bool) -> int:
        if sticky:
            return self.fleet.ports[next(iter(self.fleet.routers))]
        # A node that was started again has another port, so this one is made for the present ones.
        proxy = stack.enter_context(haproxy([self.fleet.ports[name] for name in self.names]))
        self._proxies.add(proxy.pid)
        stack.callback(self._proxies.discard, proxy.pid)
        return proxy.port

    def places(self) -> dict[int, str]:
        kinds = dict.fromkeys(self.fleet.nodes, NODE) | dict.fromkeys(self.fleet.routers, ROUTER) | {"store": STORE}
        found = {pid: kinds[name] for name, pid in self.fleet.pids().items()}
        beside = self.fleet.delay.pid if self.fleet.delay is not None else 0
        return found | dict.fromkeys(self._proxies, ROUTER) | ({beside: BESIDE} if beside else {})

    def pause_store(self) -> None:
        self.fleet.pause("store")

    def resume_store(self) -> None:
        self.fleet.resume("store")


class HandSite:
    """Servers of the SDK that know nothing of each other, behind HAProxy. They have no store.

    `words` are the arguments of `served.serve`, without its port."""

    store_port = 0

    def __init__(self, folder: Path, pace: Pace, words: Sequence[str], *, by_session: bool = False) -> None:
        self.ledger = folder / "ledger"
        self._by_session = by_session
        self._settings = {"LOADTEST_LEDGER": str(self.ledger), "LOADTEST_STATE_KEY": secrets.token_hex(32)}
        self._held: list[socket.socket] = []
        self._ports = [self._port() for _ in range(pace.nodes)]
        self._nodes = {f"n{number}": self._node(folder, f"n{number}", words, port)
                       for number, port in enumerate(self._ports, 1)}  # fmt: skip
        self._proxies: set[int] = set()

    def _port(self) -> int:
        """A port that stays a node's own while the node is away: nobody's connection may begin there."""
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        self._held.append(held)
        return int(held.getsockname()[1])

    def _node(self, folder: Path, name: str, words: Sequence[str], port: int) -> Process:
        argv = python("framehold_loadtest.served.serve", *words, str(port))
        return Process(name, argv, folder / f"{name}.log", self._settings)

    @property
    def names(self) -> list[str]:
        return list(self._nodes)

    def start(self, stack: contextlib.ExitStack) -> None:
        """Start all of them; `stack` ends them again.

        Raises:
            NotAvailable: one can't be started.
        """
        for held in self._held:
            stack.callback(held.close)
        for child in self._nodes.values():
            stack.callback(child.kill)
            child.start()
        for child in self._nodes.values():
            child.announced()

    def front(self, stack: contextlib.ExitStack, *, sticky: bool) -> int:
        proxy = stack.enter_context(haproxy(self._ports, by_session=sticky and self._by_session))
        self._proxies.add(proxy.pid)
        stack.callback(self._proxies.discard, proxy.pid)
        return proxy.port

    def places(self) -> dict[int, str]:
        nodes = {child.pid: NODE for child in self._nodes.values() if child.pid}
        return nodes | dict.fromkeys(self._proxies, ROUTER)

    def kill(self, name: str) -> None:
        self._nodes[name].kill()

    def restart(self, name: str) -> None:
        self._nodes[name].start()
        self._nodes[name].announced()

    def roll(self, name: str) -> None:
        child = self._nodes[name]
        child.signal(signal.SIGTERM)
        if child.wait(_LEAVE_SECONDS) is None:
            raise NotAvailable(f"{name} did not leave within {_LEAVE_SECONDS:g} s")
        child.stop()
        self.restart(name)

    def pause_store(self) -> None:
        """There is none."""

    def resume_store(self) -> None:
        """There is none."""
