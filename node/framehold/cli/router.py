"""`framehold router`: one router in one process, on uvloop."""

from __future__ import annotations

import asyncio
import signal
import socket

from framehold_router.app import ready, running
from framehold_router.config import RouterSettings

from ..collector import calm
from .limits import raise_files
from .log import announce, log
from .node import event_loop, listen, url_of

PATIENCE = 4.0
"""Seconds for which SIGTERM leaves idle connections open, for one more request each: clients mostly close them about
then themselves. With the drain of what is under way it stays below the chart's grace period."""


def run(settings: RouterSettings, host: str, port: int) -> None:
    """Serve until a signal ends it: SIGTERM, without breaking anything off; SIGINT (Ctrl-C), without waiting for idle
    connections.

    Raises:
        ConfigError: it can't be built of these settings, or the port can't be had.
    """
    log(settings, router=socket.gethostname())
    ready(settings)
    raise_files()
    listening = listen(host, port)
    announce(settings, f"framehold router serves {url_of(host, listening)}/mcp, store: {settings.store().target}")
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(_serve(settings, listening))


async def _serve(settings: RouterSettings, listening: socket.socket) -> None:
    loop, orders = asyncio.get_running_loop(), asyncio.Queue[float]()
    for name, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGINT, 0.0)):
        loop.add_signal_handler(name, orders.put_nowait, patience)
    async with running(settings, listening) as front:
        calm()
        await front.leave(await orders.get())
