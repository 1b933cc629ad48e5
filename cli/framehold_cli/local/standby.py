"""The next process of a node, started before it is needed. To import Framehold and the SDK takes most of a node's
start; when TARGET changes, only TARGET is left to be imported. The node's side, and what both say, is in `in_turn`."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

from . import check
from .check import Checked
from .children import Child, OnLine, Spec
from .in_turn import CHECK, SERVE

START = 60.0
"""Seconds in which the process has to be ready."""


class Standby:
    """A process that waits to serve TARGET in the place of another one."""

    def __init__(self, child: Child, target: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.child = child
        self._target, self._reader, self._writer = target, reader, writer

    @classmethod
    async def start(cls, spec: Spec, on_line: OnLine) -> Standby:
        """Start the process. `spec` is that of the node; its command ends with `-- TARGET`."""
        ours, theirs = socket.socketpair()
        with theirs:
            *command, dashes, target = spec.command
            command = [*command, "--standby", str(theirs.fileno()), dashes, target]
            child = await Child.start(replace(spec, command=tuple(command)), on_line, (theirs.fileno(),))
        return cls(child, target, *await asyncio.open_connection(sock=ours))

    async def check(self) -> Checked:
        """Have the process import TARGET, and say what it found.

        Raises:
            ConfigError: TARGET can't be served. The process has ended.
            ConnectionError: the process had ended before it could begin.
        """
        self._writer.write(CHECK.encode())
        await self._writer.drain()
        try:
            async with asyncio.timeout(START):
                line = await self._reader.readline()
            if line:
                async with asyncio.timeout(check.PATIENCE):
                    line = await self._reader.readline()
        except TimeoutError:
            self.kill()
            raise check.too_slow(self._target) from None
        if line:
            return check.read(line.decode())
        code = await self.child.exit_code()
        raise check.refusal(self._target, code, list(self.child.recent))

    def serve(self) -> Child:
        """Have the process serve TARGET, which it has checked."""
        self._writer.write(SERVE.encode())
        self._writer.close()
        return self.child

    def kill(self) -> None:
        """Kill the process."""
        self._writer.close()
        self.child.kill()
