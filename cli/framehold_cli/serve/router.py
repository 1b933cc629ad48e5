"""`framehold router`: one router in one process, on uvloop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket

from framehold.engine.gc_tuning import freeze
from framehold_router.app import ready, running
from framehold_router.config import RouterSettings

from .limits import raise_files
from .listening import Sockets, event_loop, listen_on
from .log import announce, log

PATIENCE = 4.0
"""Seconds for which idle connections stay open after SIGTERM, for one more request each. Most clients close them in
that time. Together with the drain of running requests it stays below the Helm chart's grace period."""


def run(settings: RouterSettings, host: str, port: int) -> None:
    """Serve until a signal. SIGTERM lets running requests and idle connections end; SIGINT (Ctrl-C) doesn't wait for
    idle connections, and after another signal it doesn't wait for requests either.

    Raises:
        ConfigError: the settings don't suffice for a router, or the port can't be used.
    """
    log(settings, router=socket.gethostname())
    ready(settings)
    raise_files()
    sockets = listen_on(host, port, settings)
    announce(settings, f"framehold router serves {sockets.served(host)}, store: {settings.store().target}")
    with asyncio.Runner(loop_factory=event_loop()) as runner:
        runner.run(_serve(settings, sockets))


async def _serve(settings: RouterSettings, sockets: Sockets) -> None:
    loop, orders = asyncio.get_running_loop(), asyncio.Queue[float]()
    for name, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGINT, 0.0)):
        loop.add_signal_handler(name, orders.put_nowait, patience)
    async with running(settings, *sockets) as front:
        freeze()
        patience = await orders.get()
        loop.add_signal_handler(signal.SIGINT, os._exit, 128 + signal.SIGINT)
        await front.leave(patience)
