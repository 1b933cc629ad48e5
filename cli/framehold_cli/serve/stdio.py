"""`framehold stdio`: one server for one client, on this process's standard input and output.

The law: from before TARGET is imported until the end, standard output carries only the protocol. Everything that other
code prints goes to standard error. Other code that reads standard input finds it at its end. The SDK protects both
streams too, but only from when it serves, which is too late for the import of TARGET.

How the process ends:

    1. the client closes its side. A signal has the same effect; after SIGTERM running rounds first get some seconds,
       after Ctrl-C none
    2. rounds that still run are cancelled, because no client is left
    3. frames are torn down, or handed off if a store keeps their calls; the lifespan is left
    4. the process exits with 0, or with 130 after Ctrl-C. A second signal ends the process at once
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

from framehold import config
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from framehold.frame import contained
from framehold.hosts.attach import attach
from framehold.hosts.attached import Attached
from framehold.telemetry.log_fields import add_call_fields
from framehold_core.errors import ConfigError

from . import outlast, program
from . import target as targets
from .log import log
from .node import GRACE

logger = logging.getLogger("framehold")
_COPY_BYTES = 64 * 1024
_INTERRUPTED = 130
_STDERR = 2


def settings(store: str | None, log_level: str | None) -> Settings:
    """The settings of a `stdio` process. By default it logs warnings only, and its node name is random, because each
    client starts a process of its own.

    Raises:
        ConfigError: a setting is malformed.
    """
    given = config.load(store_url=store, log_level=log_level).model_fields_set
    name = None if "node_id" in given else f"stdio-{secrets.token_hex(4)}"
    return config.load(node_id=name, log_level=None if "log_level" in given else "warning")


def run(target: str, settings: Settings) -> int:
    """Serve TARGET until its client leaves or a signal comes; return the exit code.

    Raises:
        ConfigError: TARGET can't be served, or its handlers' marks don't fit the settings.
        NodeNameTaken: another process runs under this node's name.
    """
    alone = sys.stdin.isatty()
    incoming, outgoing = _claim_streams()
    server = targets.load(target)
    log(settings, node=settings.node_id)
    add_call_fields()
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
        read = StdinLines(incoming)
        with asyncio.Runner() as runner:
            return outlast.run(runner, _serve(attached, read, wire), read.end)
    finally:
        # Output that the client did not read before it left is dropped.
        with contextlib.suppress(OSError):
            wire.close()


def _claim_streams() -> tuple[int, int]:
    """Move standard input and output to new file descriptors, and return these.

    Afterwards descriptor 0 is empty, and descriptor 1 writes to standard error.

    Raises:
        ConfigError: standard input or output is closed."""
    # Where one was closed, an empty one has been opened in its place.
    if sys.__stdin__ is None or sys.__stdout__ is None:
        raise ConfigError(
            "standard input or output is closed; nothing was started; a client talks to this command over both"
        )
    null = os.open(os.devnull, os.O_RDWR)
    claimed = os.dup(0), os.dup(1)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(_STDERR, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Printed lines must appear at once, as on a terminal.
        sys.stdout.reconfigure(line_buffering=True)
    return claimed


class StdinLines:
    """The client's input as `lines`, until the client closes its side or `end` is called.

    A thread that reads a pipe can't be interrupted. So a daemon thread copies the input to a second pipe, which `end`
    can close, and `lines` reads the second pipe."""

    def __init__(self, wire: int) -> None:
        receiving, self._sending = os.pipe()
        self.lines = anyio.wrap_file(os.fdopen(receiving, encoding="utf-8", errors="replace"))
        threading.Thread(target=self._copy, args=(wire,), name="framehold stdin", daemon=True).start()

    def _copy(self, wire: int) -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(wire, _COPY_BYTES):
                left = memoryview(piece)
                while left:
                    left = left[os.write(self._sending, left) :]
        self.end()

    def end(self) -> None:
        """End `lines`. The descriptor stays open and leads to the null device, because the thread may still write to
        it."""
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, self._sending, inheritable=False)
        os.close(null)


class Shutdown:
    """Ends this process after a signal. `status` is the exit code."""

    def __init__(self, runtime: Runtime, incoming: StdinLines) -> None:
        self._runtime = runtime
        self._incoming = incoming
        self._task: asyncio.Task[None] | None = None
        self.status = 0

    def watch(self) -> None:
        """From now on end this process at a signal, or when another process takes its node name.

        On platforms whose event loops have no signal handlers, Ctrl-C cancels the main task."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(number, self._on_signal, number)
        self._runtime.tasks.spawn(self._end_when_name_taken())

    def _on_signal(self, number: signal.Signals) -> None:
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

    async def _end_when_name_taken(self) -> None:
        """End this process when another process has taken its node name (docs/protocol.md, rule 4)."""
        await self._runtime.heartbeat.lost.wait()
        self._incoming.end()


async def _serve(attached: Attached, incoming: StdinLines, wire: io.TextIOWrapper) -> int:
    server, shutdown = attached.server, Shutdown(attached.runtime, incoming)
    shutdown.watch()
    attached.begin_service()
    contained.begin()
    # The lifespan is outside the transport's task group, which would wrap its errors in an exception group.
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
    return shutdown.status
