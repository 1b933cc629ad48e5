"""The servers of the benchmark, each a process on a core of its own, and what stands in front of them."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack

from framehold_fleet.identity.trust import Trust
from framehold_loadtest.bench.calls import Group, Site
from framehold_loadtest.local import probe
from framehold_loadtest.local.listeners import Cores, announced, framehold_port, redis_server
from framehold_loadtest.local.process import NotAvailable, Process, python
from framehold_loadtest.served.measured import FRAMEHOLD, NODE, SDK, SDK_DEFAULT

BASELINE, DEFAULT = SDK, SDK_DEFAULT
"""The SDK's handler in its fastest mode, which all ratios that are judged refer to, and in its default mode."""
BASES = (BASELINE, DEFAULT)
_SDK = "the SDK's hand-written handler with json_response=True, its fastest mode; every verdict is to this one"
_SDK_DEFAULT = (
    "the same handler in the SDK's default mode: each request is prepared for an event stream, also where its response"
    " is JSON in the end"
)
_JOIN_SECONDS = 15.0


def settings(store: Process | None) -> dict[str, str]:
    """The environment of a Framehold server: fresh keys, and the store's address if it has one."""
    chosen = {"FRAMEHOLD_KEYS": secrets.token_hex(32)}
    if store is not None:
        chosen["FRAMEHOLD_STORE_URL"] = f"redis://127.0.0.1:{store.port}"
    return chosen


def secret(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a relay that isn't ours: the key of load balancers that the fleet's keys make."""
    return {"FRAMEHOLD_SECRET": Trust([settings["FRAMEHOLD_KEYS"].encode()]).plane_key}


def serving(variant: str, core: int, settings: Mapping[str, str], *words: str) -> AbstractContextManager[Process]:
    """A server of `served.measured` on a core, with `settings` added to its environment.

    Raises:
        NotAvailable: it ended, or stayed silent, before it printed its port.
    """
    return announced(python("framehold_loadtest.served.measured", variant, *words), core, settings)


@contextlib.contextmanager
def framehold_router(core: int, settings: Mapping[str, str], nodes: int) -> Iterator[Process]:
    """`framehold router` on a core, once so many nodes stand on its ring.

    Raises:
        NotAvailable: it does not start, or does not find the nodes.
    """
    with announced(python("framehold", "router", "--port", "0"), core, settings, framehold_port) as router:
        deadline = time.monotonic() + _JOIN_SECONDS
        while len(probe.on_ring(router.port)) != nodes:
            if time.monotonic() > deadline:
                raise NotAvailable(f"the router did not find {nodes} nodes{router.last_words()}")
            time.sleep(0.05)
        yield router


def plain(name: str, what: str, variant: str, *words: str) -> Group:
    """A server that has no store."""

    def start(stack: ExitStack, cores: Cores) -> Mapping[str, Site]:
        environment = settings(None) if variant in (FRAMEHOLD, NODE) else {}
        server = stack.enter_context(serving(variant, cores.server, environment, *words))
        return {name: Site(server.port, server.pid)}

    return Group(start, {name: what})


def stored(
    name: str,
    what: str,
    variant: str,
    sync: str = "",
    *,
    routed: str = "",
    beside: Callable[[Cores], int] | None = None,
) -> Group:
    """A Framehold server with a Redis, which syncs its file as `sync` says, and is on the core of the load, or on the
    one that `beside` names. `routed` is the name of the same server behind a router on its core; empty for none."""

    def start(stack: ExitStack, cores: Cores) -> Mapping[str, Site]:
        store = stack.enter_context(redis_server(beside(cores) if beside else cores.load, sync))
        common = settings(store)
        node = stack.enter_context(serving(variant, cores.server, common))
        found = {name: Site(node.port, node.pid, store.pid)}
        if routed:
            # The node tells its port before it has its lease: the router's start waits for that.
            router = stack.enter_context(framehold_router(cores.server, common, 1))
            found[routed] = Site(router.port, node.pid, store.pid, router.pid)
        return found

    return Group(start, {name: what, **({routed: ""} if routed else {})})


SDKS = (plain(BASELINE, _SDK, SDK), plain(DEFAULT, _SDK_DEFAULT, SDK_DEFAULT))
CALLS = (
    *SDKS,
    plain("framehold memory", "", FRAMEHOLD),
    stored("framehold redis", "", FRAMEHOLD, routed="framehold redis, router"),
    plain("framehold node, memory", "", NODE),
    stored("framehold node, redis", "", NODE),
)
"""The SDK's, Framehold's under uvicorn, and Framehold's as `framehold node` serves it."""
_SYNC = "appendfsync of the Redis, on the same machine, whose file is in the system's temporary folder"
SINGLE = (
    *SDKS,
    plain("framehold memory", "", FRAMEHOLD),
    *(stored(f"framehold redis, {sync}", _SYNC, FRAMEHOLD, sync, routed=f"framehold redis, {sync}, router")
      for sync in ("everysec", "always")),
)  # fmt: skip
"""Those that are called one call at a time."""
