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

from framehold_loadtest import served
from framehold_loadtest.local.fleet import Fleet, FleetPlan
from framehold_loadtest.local.listeners import haproxy
from framehold_loadtest.local.process import NotAvailable, Process, python
from framehold_loadtest.report.respects import PLACES
from framehold_loadtest.served.measured import BY_HAND
from framehold_loadtest.tradeoff.pace import Pace

NODE, ROUTER, STORE = PLACES
_HELD = Path(served.__file__).with_name("held.py")
_LEAVE_SECONDS = 30.0


class _Proxies:
    """The HAProxies in front of a site."""

    def __init__(self) -> None:
        self.pids: set[int] = set()

    def before(self, ports: Sequence[int], stack: contextlib.ExitStack, *, by_session: bool = False) -> int:
        """The port of one more, in front of nodes on these ports."""
        proxy = stack.enter_context(haproxy(ports, by_session=by_session))
        self.pids.add(proxy.pid)
        stack.callback(self.pids.discard, proxy.pid)
        return proxy.port


class FleetSite(Fleet):
    """Framehold's own fleet, behind its router."""

    def __init__(self, folder: Path, pace: Pace, strategy: str) -> None:
        plan = FleetPlan(pace.nodes, strategy=strategy, lease_ttl=pace.lease_ttl, target=_HELD, route_headers=False)
        super().__init__(folder, plan)
        self._proxies = _Proxies()

    @property
    def names(self) -> list[str]:
        """Its nodes."""
        return list(self.nodes)

    def front(self, stack: contextlib.ExitStack, *, sticky: bool) -> int:
        """The port that clients call: the router's, or that of a proxy which knows nothing of calls."""
        if sticky:
            return self.ports[next(iter(self.routers))]
        # A node that was started again has another port, so this one is made for the present ones.
        return self._proxies.before([self.ports[name] for name in self.names], stack)

    def places(self) -> dict[int, str]:
        """The processes that run, each by its id, and whether they are a node, the router or the store."""
        kinds = dict.fromkeys(self.nodes, NODE) | dict.fromkeys(self.routers, ROUTER) | {"store": STORE}
        return {pid: kinds[name] for name, pid in self.pids().items()} | dict.fromkeys(self._proxies.pids, ROUTER)


class HandSite:
    """Servers of the SDK that know nothing of each other, behind HAProxy. They have no store. `way` is one of
    `served.by_hand`."""

    store_port = 0

    def __init__(self, folder: Path, pace: Pace, way: str, *, by_session: bool = False) -> None:
        self.ledger = folder / "ledger"
        self._by_session = by_session
        self._settings = {"LOADTEST_LEDGER": str(self.ledger), "LOADTEST_STATE_KEY": secrets.token_hex(32)}
        self._held: list[socket.socket] = []
        self._ports = [self._port() for _ in range(pace.nodes)]
        self._nodes = {f"n{number}": self._node(folder, f"n{number}", way, port)
                       for number, port in enumerate(self._ports, 1)}  # fmt: skip
        self._proxies = _Proxies()

    def _port(self) -> int:
        """A port that stays a node's own while the node is away: nobody's connection may begin there."""
        held = socket.socket()
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        self._held.append(held)
        return int(held.getsockname()[1])

    def _node(self, folder: Path, name: str, way: str, port: int) -> Process:
        argv = python("framehold_loadtest.served.measured", BY_HAND[way], "--port", str(port))
        return Process(name, argv, folder / f"{name}.log", self._settings)

    @property
    def names(self) -> list[str]:
        """Its nodes."""
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
        """The port that clients call."""
        return self._proxies.before(self._ports, stack, by_session=sticky and self._by_session)

    def places(self) -> dict[int, str]:
        """As those of a fleet."""
        nodes = {child.pid: NODE for child in self._nodes.values() if child.pid}
        return nodes | dict.fromkeys(self._proxies.pids, ROUTER)

    def kill(self, name: str) -> None:
        """End a node at once."""
        self._nodes[name].kill()

    def restart(self, name: str) -> None:
        """Start a node that has ended, and wait until it serves."""
        self._nodes[name].start()
        self._nodes[name].announced()

    def roll(self, name: str) -> None:
        """A node leaves in good order, and its successor takes its place."""
        child = self._nodes[name]
        child.signal(signal.SIGTERM)
        if child.wait(_LEAVE_SECONDS) is None:
            raise NotAvailable(f"{name} did not leave within {_LEAVE_SECONDS:g} s")
        child.stop()
        self.restart(name)

    def pause(self, name: str) -> None:
        """There is no store to be paused."""

    def resume(self, name: str) -> None:
        """Nor is one to go on."""


Site = FleetSite | HandSite
