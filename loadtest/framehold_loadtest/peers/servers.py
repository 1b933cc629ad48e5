"""The peers, and how each is started: all that answers a peer's calls shares one core.

So calls per second are those of one core, with the store or the server that a peer needs counted in: unlike section
`calls` of the benchmark, where Redis has a core of its own. A peer that has a mode in which it responds with JSON alone
is served in it, since this mode is the fastest one, and once more in its default mode.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from framehold_loadtest.bench.lab.servers import BASELINE, DEFAULT, Target, serving, settings
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


def peers(folder: Path) -> dict[str, Peer]:
    """All of them by name, in the order of the report; packages of npm are in `folder`."""
    return {**_of_python(), **_of_npm(folder), **_ours()}


def _of_python() -> dict[str, Peer]:
    return {
        BASELINE: Peer(
            _sdk(BASELINE),
            "the Python SDK with json_response=True, a handler that returns its question and is entered again",
        ),
        DEFAULT: Peer(_sdk(DEFAULT), "the same handler in the SDK's default mode, prepared for an event stream"),
        "resolve": Peer(
            _python("resolve", "--json"), "the Python SDK with json_response=True, a parameter under Resolve"
        ),
        "resolve, default": Peer(_python("resolve"), "the same handler in the SDK's default mode"),
        "fastmcp": Peer(
            _python("fastmcp", "--json"),
            "FastMCP with json_response=True, a handler that returns its question and is entered again",
        ),
        "fastmcp, default": Peer(_python("fastmcp"), "the same handler in FastMCP's default mode"),
    }


def _of_npm(folder: Path) -> dict[str, Peer]:
    @cache
    def packages() -> npm.Packages:
        return npm.ensure(folder)

    def typescript(*mode: str) -> Start:
        @contextlib.contextmanager
        def start(core: int) -> Iterator[Target]:
            found = packages()
            argv = [str(found.node), str(found.weather), *mode]
            with announcing(argv, core, {"NODE_ENV": "production"}) as child:
                yield Target(child, None)

        return start

    @contextlib.contextmanager
    def durable(core: int) -> Iterator[Target]:
        with restate(core, packages().restate) as target:
            yield target

    ways = "framehold_loadtest.peers.restate:"
    return {
        "typescript": Peer(
            typescript("json"),
            'the TypeScript SDK under Node with responseMode "json", a handler that returns its question and is entered'
            " again, its state signed",
        ),
        "typescript, default": Peer(typescript(), "the same handler in the TypeScript SDK's default mode"),
        "restate, known": Peer(
            durable, "Restate, a promise that round 2 resolves; round 1 is only accepted", ways + "known"
        ),
        "restate, asked": Peer(
            durable, "Restate, a promise that round 2 resolves; round 1 returns the handler's question", ways + "asked"
        ),
    }


def _ours() -> dict[str, Peer]:
    return {
        "framehold memory": Peer(_framehold_memory, "Framehold, a handler that awaits its question; no store"),
        "framehold redis": Peer(
            _framehold_redis, "Framehold, a handler that awaits its question; leases and journal in Redis"
        ),
    }


def _python(*words: str) -> Start:
    @contextlib.contextmanager
    def start(core: int) -> Iterator[Target]:
        with announced(["framehold_loadtest.peers.serve", *words], core, {}) as child:
            yield Target(child, None)

    return start


def _sdk(variant: str) -> Start:
    @contextlib.contextmanager
    def start(core: int) -> Iterator[Target]:
        with serving(variant, core, {}) as child:
            yield Target(child, None)

    return start


@contextlib.contextmanager
def _framehold_memory(core: int) -> Iterator[Target]:
    with serving("framehold", core, settings(None)) as child:
        yield Target(child, None)


@contextlib.contextmanager
def _framehold_redis(core: int) -> Iterator[Target]:
    with redis_server(core) as store, serving("framehold", core, settings(store)) as child:
        yield Target(child, store)
