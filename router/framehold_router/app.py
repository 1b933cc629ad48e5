"""Where a router is put together, and run.

1. the store is opened, and the membership read once
2. the pages are served on a Unix socket in a folder of this process's own
3. the public port is served: requests for nodes go to nodes, others to the pages
4. at the end: streams end; no new connections; what runs may end within `drain` seconds; then pages, membership and
   store close
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from framehold_core.errors import ConfigError
from framehold_store import open_store

from . import envelope
from .api.ask import Asker
from .api.chronicles import Chronicles
from .api.sources import Sources
from .config import RouterSettings
from .departures import Departures
from .front import Front, serve
from .internal import Trust
from .membership import Membership
from .metrics import counting, page
from .pages import end_streams, pages, serve_pages
from .placement import Placer
from .relay import Relay
from .survey import Survey
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
    membership, departures = Membership(store, trust), Departures()
    membership.on_looked = departures.look
    await membership.open()
    upstream, asker = Upstream(settings), Asker(trust)
    survey, chronicles = Survey(lambda: membership.fleet, asker), Chronicles(lambda: membership.fleet, asker)
    placer = Placer(lambda: membership.fleet, time.monotonic)
    try:
        async with AsyncExitStack() as stack:
            metrics = None
            if settings.metrics:
                metrics = await stack.enter_async_context(counting(membership, departures, survey.nodes))
            sources = Sources(
                *(lambda: membership.fleet, store, asker, survey, chronicles, departures),
                place=placer.where,
                retries=metrics.meter if metrics is not None else None,
                change=lambda: membership.change,
                report=settings.tradeoff_report,
            )
            shown = pages(sources, settings.admin_token, page(metrics))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="framehold-router-"))
            inside = str(Path(folder) / "pages")
            await stack.enter_async_context(serve_pages(shown, inside))
            to_node = metrics.to_node if metrics is not None else None
            relay = Relay(placer, envelope.read, upstream, trust, settings, inside, to_node)
            front = await serve(relay, settings, listening)
            if metrics is not None:
                relay.refused = front.refused = metrics.meter.refused
            try:
                yield front
            finally:
                end_streams(shown)
                await front.close(DRAIN)
    finally:
        for opened in (survey, chronicles, asker, upstream, membership, store):
            await opened.close()
