"""The servers and the load generators of the benchmark, each a process on a core of its own."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from framehold_loadtest.bench.generators.calls import Measured, Site
from framehold_loadtest.bench.subjects.serve import FRAMEHOLD, NODE, SDK, SDK_DEFAULT
from framehold_loadtest.local.listeners import Cores, Listener, announced, redis_server, started
from framehold_loadtest.local.process import NotAvailable, python

CONNECTIONS = 32
BASELINE, DEFAULT = SDK, SDK_DEFAULT
"""The SDK's handler in its fastest mode, which all ratios that are judged refer to, and in its default mode."""
MODES = (
    "sdk: the SDK's hand-written handler with json_response=True, its fastest mode; every verdict is to this one",
    "sdk, default: the same handler in the SDK's default mode: each request is prepared for an event stream, also where"
    " its response is JSON in the end",
)
"""What the rows of the SDK are, for the notes of a table."""
_SPARE_SECONDS, _SECONDS_PER_TURN = 30.0, 1.0


@dataclass(frozen=True, slots=True)
class Target:
    """A server that runs, and its store if that is a process of its own."""

    child: Listener
    store: Listener | None


@dataclass(frozen=True, slots=True)
class Window:
    """How long a server is loaded before the window, and in it; seconds."""

    warm: float
    seconds: float


def settings(store: Listener | None) -> dict[str, str]:
    """The environment of a Framehold server: fresh keys, and the store's address if it has one."""
    chosen = {"FRAMEHOLD_KEYS": secrets.token_hex(32)}
    if store is not None:
        chosen["FRAMEHOLD_STORE_URL"] = f"redis://127.0.0.1:{store.port}"
    return chosen


def serving(
    variant: str, core: int, settings: Mapping[str, str], *, metered: bool = False
) -> AbstractContextManager[Listener]:
    """A server of `subjects.serve.VARIANTS` on a core, with `settings` added to its environment.

    Raises:
        NotAvailable: it ended, or stayed silent, before it printed its port.
    """
    argv = ["framehold_loadtest.bench.subjects.serve", variant, *(["--metered"] if metered else [])]
    return announced(argv, core, settings)


@contextlib.contextmanager
def running(server: str, cores: Cores) -> Iterator[Target]:
    """A fresh server by the name of its row: a variant, then `redis` if it has a store.

    Raises:
        NotAvailable: it or its store did not start.
    """
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(redis_server(cores.load)) if server.endswith("redis") else None
        ours = next((variant for variant in (NODE, FRAMEHOLD) if server.startswith(variant)), None)
        variant, environment = (server, {}) if ours is None else (ours, settings(store))
        yield Target(stack.enter_context(serving(variant, cores.server, environment)), store)


def load(target: Target, window: Window, cores: Cores, call: str | None = None) -> Measured:
    """Load a server that runs; `call` is the `--call` of `generators.calls`.

    Raises:
        NotAvailable: the generator failed, or no call completed.
    """
    child, store = target.child, target.store
    site = Site(child.port, child.pid, 0 if store is None else store.pid)
    try:
        ((measured,),) = load_in_turn([site], 1, window, cores, call)
    except NotAvailable as reason:
        raise NotAvailable(f"{reason}{child.last_words()}") from None
    if measured.calls == 0:
        raise NotAvailable(f"no call completed: {measured.errors}{child.last_words()}")
    return measured


def load_in_turn(
    sites: Sequence[Site], turns: int, window: Window, cores: Cores, call: str | None = None
) -> list[list[Measured]]:
    """Load servers that run, one after the other, over and over; the turns of each, in their order.

    Raises:
        NotAvailable: the generator failed.
    """
    arguments: list[object] = ["--connections", CONNECTIONS, "--warm", window.warm, "--seconds", window.seconds]
    arguments += ["--turns", turns]
    for site in sites:
        arguments += ["--site", *site]
    if call is not None:
        arguments += ["--call", call]
    timeout = len(sites) * turns * (window.warm + window.seconds + _SECONDS_PER_TURN) + _SPARE_SECONDS
    found = run_json("calls", arguments, cores.load, timeout)
    return [[Measured(**turn) for turn in measured] for measured in found]


def run_json(generator: str, arguments: Sequence[object], core: int, timeout: float) -> Any:
    """Run a generator on a core to its end, and return the JSON that it printed.

    Raises:
        NotAvailable: it failed, or took longer than `timeout` seconds.
    """
    argv = python(f"framehold_loadtest.bench.generators.{generator}", *map(str, arguments))
    with started(generator, argv, core, {}) as child:
        return json.loads(child.output(timeout))
