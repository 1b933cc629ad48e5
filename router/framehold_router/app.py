"""Where a router is put together, and run.

1. the store is opened, and the membership read once
2. the pages are served on a Unix socket in a folder of this process's own
3. the public port is served: requests for nodes go to nodes, others to the pages
4. at the end: no new connections; what runs may end within `drain` seconds; then pages, membership and store close
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from framehold_core.errors import ConfigError
from framehold_store import open_store

from . import envelope
from .config import RouterSettings
from .front import Front, serve
from .internal import Trust
from .membership import Membership
from .pages import pages, serve_pages
from .placement import Placer
from .relay import Relay
from .upstream import Upstream

DRAIN = 10.0
"""Seconds for which requests may go on when a router ends."""


def ready(settings: RouterSettings) -> RouterSettings:
    """`settings`, if a router can be built of them.

    Raises:
        ConfigError: there are no keys, or no store that nodes could share.
    """
    if not settings.keys:
        raise ConfigError(
            "FRAMEHOLD_KEYS is missing: nodes believe only a router that has the fleet's keys; nothing was started; "
            "make one with: export FRAMEHOLD_KEYS=$(framehold keys new)"
        )
    if settings.store().scheme in ("memory", "embedded"):
        raise ConfigError(
            "FRAMEHOLD_STORE_URL names no store that processes can share: a router finds its nodes there; nothing was "
            "started; give --store redis://HOST:PORT, or try a whole fleet with: framehold up"
        )
    return settings


@asynccontextmanager
async def running(settings: RouterSettings, listening: socket.socket) -> AsyncIterator[Front]:
    """A router on `listening`, for as long as the context is open.

    Raises:
        ConfigError: it can't be built of these settings.
    """
    trust = Trust(ready(settings).secrets())
    store = open_store(settings.store(), time.monotonic)
    await store.open()
    membership = Membership(store, trust)
    await membership.open()
    upstream = Upstream(settings)
    try:
        with tempfile.TemporaryDirectory(prefix="framehold-router-") as folder:
            inside = str(Path(folder) / "pages")
            async with serve_pages(pages(lambda: membership.fleet, trust), inside):
                placer = Placer(lambda: membership.fleet, time.monotonic)
                relay = Relay(placer, envelope.read, upstream, trust, settings, inside)
                front = await serve(relay, settings, listening)
                try:
                    yield front
                finally:
                    await front.close(DRAIN)
    finally:
        await upstream.close()
        await membership.close()
        await store.close()
