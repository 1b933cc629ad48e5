"""Where an option is served: nodes by name, what stands in front of them, and the store if there is one.

Law: a method returns when its effect shows, as in `local.fleet`. On a site without a store, pausing the store does
nothing.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from framehold_loadtest import served
from framehold_loadtest.local.fleet import Fleet, FleetPlan
from framehold_loadtest.local.listeners import haproxy
from framehold_loadtest.local.process import Process, python
from framehold_loadtest.report.respects import PLACES
from framehold_loadtest.served.measured import BY_HAND
from framehold_loadtest.tradeoff.pace import Pace

NODE, ROUTER, STORE = PLACES
_HELD = Path(served.__file__).with_name("held.py")


class _Fronted(Fleet):
    """A fleet behind what its option has in front of it."""

    def __init__(self, folder: Path, plan: FleetPlan) -> None:
        super().__init__(folder, plan)
        self._proxies: set[int] = set()

    @property
    def names(self) -> list[str]:
        """Its nodes."""
        return list(self.nodes)

    def places(self) -> dict[int, str]:
        """The processes that run, each by its id, and whether they are a node, the router or the store."""
        kinds = dict.fromkeys(self.nodes, NODE) | dict.fromkeys(self.routers, ROUTER) | {"store": STORE}
        return {pid: kinds[name] for name, pid in self.pids().items()} | dict.fromkeys(self._proxies, ROUTER)

    def _before(self, stack: contextlib.ExitStack, *, by_session: bool = False) -> int:
        """The port of one more HAProxy, in front of the present nodes."""
        proxy = stack.enter_context(haproxy([self.ports[name] for name in self.names], by_session=by_session))
        self._proxies.add(proxy.pid)
        stack.callback(self._proxies.discard, proxy.pid)
        return proxy.port


class FleetSite(_Fronted):
    """Framehold's own fleet, behind its router."""

    def __init__(self, folder: Path, pace: Pace, strategy: str) -> None:
        plan = FleetPlan(pace.nodes, strategy=strategy, lease_ttl=pace.lease_ttl, target=_HELD, route_headers=False)
        super().__init__(folder, plan)

    def front(self, stack: contextlib.ExitStack, *, sticky: bool) -> int:
        """The port that clients call: the router's, or that of a proxy which knows nothing of calls."""
        return self.ports[next(iter(self.routers))] if sticky else self._before(stack)


class HandSite(_Fronted):
    """Servers of the SDK that know nothing of each other, behind HAProxy. They have no store. `way` is one of
    `served.by_hand`."""

    def __init__(self, folder: Path, pace: Pace, way: str, *, by_session: bool = False) -> None:
        super().__init__(folder, FleetPlan(pace.nodes))
        self.store_port, self._way, self._by_session = 0, way, by_session
        self._settings = {"LOADTEST_LEDGER": str(self.ledger), "LOADTEST_STATE_KEY": secrets.token_hex(32)}

    def start(self, stack: contextlib.ExitStack) -> None:
        """Start all of them; `stack` ends them again.

        Raises:
            NotAvailable: one can't be started.
        """
        stack.callback(self.stop)
        for number in range(1, self.plan.nodes + 1):
            name, port = f"n{number}", stack.enter_context(_held_port())
            argv = python("framehold_loadtest.served.measured", BY_HAND[self._way], "--port", str(port))
            self.nodes[name] = Process(name, argv, self._log(name), self._settings)
            self.nodes[name].start()
        for name in self.nodes:
            self._listens(name)

    def front(self, stack: contextlib.ExitStack, *, sticky: bool) -> int:
        """The port that clients call."""
        return self._before(stack, by_session=sticky and self._by_session)

    def pause(self, name: str) -> None:
        """There is no store to be paused."""

    def resume(self, name: str) -> None:
        """Nor is one to go on."""

    def _listens(self, name: str) -> None:
        self.ports[name] = int(self.process(name).announced())

    def _await_ready(self, *names: str) -> None:
        """Each serves as soon as it listens."""


@contextlib.contextmanager
def _held_port() -> Iterator[int]:
    """A port that stays a node's own while the node is away: nobody's connection may begin there."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        yield int(held.getsockname()[1])


Site = FleetSite | HandSite
