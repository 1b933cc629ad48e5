"""`framehold stdio`: one server for one client, on this process's standard input and output.

The law: from before TARGET is imported until the end, standard output carries the protocol and nothing else. What
anybody prints goes to standard error, and whoever reads standard input finds its end. So the SDK's own claim of both,
which begins when it serves, isn't needed.

How it ends:

    1. the client closes its side. A signal counts as that; SIGTERM gives rounds that run some seconds before, Ctrl-C
       none
    2. what still runs is cancelled: nobody is left to hear of it
    3. frames are torn down, or handed off where a store keeps their calls; the lifespan is left
    4. the process exits: 0, or 130 after Ctrl-C. A second signal waits for none of this
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import os
import secrets
import signal
import sys
import threading

import anyio
from mcp.server.runner import serve_dual_era_loop
from mcp.server.stdio import stdio_server

from framehold_core.errors import ConfigError

from .. import config
from ..attach import attach
from ..attached import Attached
from ..config import Settings
from ..runtime import Runtime
from . import program
from . import target as targets
from .log import log
from .node import GRACE

logger = logging.getLogger("framehold")
_PIECE = 64 * 1024
_INTERRUPTED = 130
_ERRORS = 2


def settings(store: str | None, log_level: str | None) -> Settings:
    """The settings of such a process: quiet, and under a name of its own, since each client starts one.

    Raises:
        ConfigError: one is malformed.
    """
    given = config.load(store_url=store, log_level=log_level).model_fields_set
    name = None if "node_id" in given else f"stdio-{secrets.token_hex(4)}"
    return config.load(node_id=name, log_level=None if "log_level" in given else "warning")


def run(target: str, settings: Settings) -> int:
    """Serve TARGET until its client leaves or a signal comes; the exit code.

    Raises:
        ConfigError: TARGET can't be served, or not as its handlers are marked.
        NodeNameTaken: another process runs under this one's name.
    """
    alone = sys.stdin is not None and sys.stdin.isatty()
    incoming, outgoing = _taken()
    server = targets.load(target)
    log(settings, node=settings.node_id)
    try:
        attached = attach(server, settings)
    except TypeError as error:
        raise ConfigError(str(error)) from None
    attached.check()
    if alone:
        print(
            f"framehold serves {target} on standard input and output: a client starts it so. Ctrl-C ends it\n"
            f"In the configuration of a client:\n{program.configuration(target)}",
            file=sys.stderr,
        )
    wire = os.fdopen(outgoing, "w", encoding="utf-8", newline="\n")
    try:
        return asyncio.run(_serve(attached, Incoming(incoming), wire))
    finally:
        # What a client that left did not read is dropped.
        with contextlib.suppress(OSError):
            wire.close()


def _taken() -> tuple[int, int]:
    """Standard input and output, under other numbers than their own."""
    try:
        os.fstat(0), os.fstat(1)
    except OSError:
        raise ConfigError(
            "standard input or output is closed; nothing was started; a client talks to this command over both"
        ) from None
    # Where standard error is closed, this is it from now on: the next number that is free.
    null = os.open(os.devnull, os.O_RDWR)
    taken = os.dup(0), os.dup(1)
    os.dup2(null, 0)
    if null == _ERRORS:
        os.set_inheritable(null, True)
    else:
        os.close(null)
    os.dup2(_ERRORS, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # What is printed is read when it is printed, as on a terminal.
        sys.stdout.reconfigure(line_buffering=True)
    return taken


class Incoming:
    """What the client sends, in `lines`, until it closes its side or `end` is called.

    Nothing interrupts a thread that reads a pipe. So one that the process needn't wait for copies what comes to a pipe
    of our own, and whoever reads that can be shown its end."""

    def __init__(self, wire: int) -> None:
        receiving, self._sending = os.pipe()
        self.lines = anyio.wrap_file(os.fdopen(receiving, encoding="utf-8", errors="replace"))
        threading.Thread(target=self._copy, args=(wire,), name="framehold stdin", daemon=True).start()

    def _copy(self, wire: int) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(wire, _PIECE):
                left = memoryview(piece)
                while left:
                    left = left[os.write(self._sending, left) :]
        self.end()

    def end(self) -> None:
        """No more is read. The number stays open and leads nowhere: the thread may be about to write to it."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._sending, inheritable=False)
        os.close(null)


class Leaving:
    """What a signal does. `status` is the exit code that it leads to."""

    def __init__(self, runtime: Runtime, incoming: Incoming) -> None:
        self._runtime, self._incoming = runtime, incoming
        self._task: asyncio.Task[None] | None = None
        self.status = 0

    def watch(self) -> None:
        """Hear signals from now on, and of another process under this one's name. Where loops hear no signals Ctrl-C
        cancels the main task."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self._told, number)
        self._runtime.tasks.spawn(self._lost())

    def _told(self, number: signal.Signals) -> None:
        if self._task is not None:
            os._exit(128 + number)
        self.status = _INTERRUPTED if number == signal.SIGINT else 0
        self._task = asyncio.create_task(self._leave(number), name="framehold drain")

    async def _leave(self, number: signal.Signals) -> None:
        try:
            if number == signal.SIGTERM:
                await self._runtime.drain(min(self._runtime.settings.drain_timeout, GRACE), parked=False)
        finally:
            self._incoming.end()

    async def _lost(self) -> None:
        """A process that finds another one under its own name must not go on (PROTOCOL rule 4)."""
        await self._runtime.heartbeat.lost.wait()
        self._incoming.end()


async def _serve(attached: Attached, incoming: Incoming, wire: io.TextIOWrapper) -> int:
    server, leaving = attached.server, Leaving(attached.runtime, incoming)
    leaving.watch()
    # Outside the transport's task group, which would wrap whatever a start raises.
    async with server.lifespan(server) as state:
        try:
            async with stdio_server(incoming.lines, anyio.wrap_file(wire)) as (received, sent):
                try:
                    options = server.create_initialization_options()
                    await serve_dual_era_loop(server, received, sent, lifespan_state=state, init_options=options)
                finally:
                    incoming.end()
        except* BrokenPipeError:
            logger.info("the client went without a word; what ran for it was cancelled")
    return leaving.status
