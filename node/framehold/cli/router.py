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


def run(settings: RouterSettings, host: str, port: int) -> None:
    """Serve until a signal ends it.

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
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, ended.set)
    async with running(settings, listening):
        calm()
        await ended.wait()
