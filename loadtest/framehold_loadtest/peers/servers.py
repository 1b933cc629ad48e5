"""The peers, and how each is started: all that answers a peer's calls shares one core.

So calls per second are those of one core, with the store or the server that a peer needs counted in: unlike section
`calls` of the benchmark, where Redis has a place of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from framehold_loadtest.bench.lab.servers import Target, serving, settings
from framehold_loadtest.local.listeners import announced, announcing, redis_server
from framehold_loadtest.peers import npm
from framehold_loadtest.peers.restate import restate

Start = Callable[[int], AbstractContextManager[Target]]
"""From a core to a server that runs there; raises NotAvailable."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What is compared: what starts it, what it is, and generators.calls' `--call` where it does not speak MCP."""

    start: Start
    what: str
    call: str | None = None


BASELINE = "sdk"


def peers(folder: Path) -> dict[str, Peer]:
    """All of them by name, in the order of the report; packages of npm are in `folder`."""

    @cache
    def packages() -> npm.Packages:
        return npm.ensure(folder)

    @contextlib.contextmanager
    def typescript(core: int) -> Iterator[Target]:
        found = packages()
        argv = [str(found.node), str(found.weather)]
        with announcing(argv, core, {"NODE_ENV": "production"}) as child:
            yield Target(child, None)

    @contextlib.contextmanager
    def durable(core: int) -> Iterator[Target]:
        with restate(core, packages().restate) as target:
            yield target

    ways = "framehold_loadtest.peers.restate:"
    return {
        BASELINE: Peer(_sdk, "the Python SDK, a handler that returns its question and is entered again"),
        "resolve": Peer(_python("resolve"), "the Python SDK, a parameter under Resolve"),
        "fastmcp": Peer(_python("fastmcp"), "FastMCP, a handler that returns its question and is entered again"),
        "typescript": Peer(
            typescript,
            "the TypeScript SDK under Node, a handler that returns its question and is entered again, its state signed",
        ),
        "restate, known": Peer(
            durable, "Restate, a promise that round 2 resolves; round 1 is only accepted", ways + "known"
        ),
        "restate, asked": Peer(
            durable, "Restate, a promise that round 2 resolves; round 1 returns the handler's question", ways + "asked"
        ),
        "framehold memory": Peer(_framehold_memory, "Framehold, a handler that awaits its question; no store"),
        "framehold redis": Peer(
            _framehold_redis, "Framehold, a handler that awaits its question; leases and journal in Redis"
        ),
    }


def _python(name: str) -> Start:
    @contextlib.contextmanager
    def start(core: int) -> Iterator[Target]:
        with announced(["framehold_loadtest.peers.serve", name], core, {}) as child:
            yield Target(child, None)

    return start


@contextlib.contextmanager
def _sdk(core: int) -> Iterator[Target]:
    with serving("sdk", core, {}) as child:
        yield Target(child, None)


@contextlib.contextmanager
def _framehold_memory(core: int) -> Iterator[Target]:
    with serving("framehold", core, settings(None)) as child:
        yield Target(child, None)


@contextlib.contextmanager
def _framehold_redis(core: int) -> Iterator[Target]:
    with redis_server(core) as store, serving("framehold", core, settings(store)) as child:
        yield Target(child, store)
