"""A relay of connections that delivers each piece late: `python -m framehold_loadtest.local.delay PORT TARGET SECONDS`.

A round trip through it takes so many seconds longer, half of them on each way, to within a millisecond. Pieces
keep their order, and one does not wait for another's delivery. It prints its port when it listens.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import cast

import uvloop

from framehold_loadtest.local.listeners import free_ports
from framehold_loadtest.local.process import Process, python


def delaying(folder: Path, target: int, seconds: float) -> tuple[Process | None, int]:
    """The relay to a port of this machine, not started yet, and its own port; without a delay the port alone."""
    if not seconds:
        return None, target
    (port,) = free_ports(1)
    argv = python(__name__, str(port), str(target), f"{seconds:g}")
    return Process("delay", argv, folder / "delay.log", {}), port


class _Way(asyncio.Protocol):
    """What arrives on one connection, to be written to the other."""

    def __init__(self, late: float, target: int = 0) -> None:
        self._late, self._target = late, target
        self._own: asyncio.BaseTransport | None = None
        self._other: asyncio.WriteTransport | None = None
        self._waiting: list[bytes] = []
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._own = transport
        if self._target:
            self._opening = asyncio.get_running_loop().create_task(self._open())

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self._late, self._deliver, data)

    def connection_lost(self, exc: Exception | None) -> None:
        asyncio.get_running_loop().call_later(self._late, self._leave)

    async def _open(self) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        own, back = cast("asyncio.WriteTransport", self._own), _Way(self._late)
        try:
            self._other, _ = await asyncio.get_running_loop().create_connection(lambda: back, "127.0.0.1", self._target)
        except OSError:
            own.close()
            return
        back._other = own
        for data in self._waiting:
            self._other.write(data)
        self._waiting.clear()

    def _deliver(self, data: bytes) -> None:
        if self._other is None:
            self._waiting.append(data)
        elif not self._other.is_closing():
            self._other.write(data)

    def _leave(self) -> None:
        if self._other is not None:
            self._other.close()


async def _serve(port: int, target: int, seconds: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: _Way(seconds / 2, target), "127.0.0.1", port)
    print(port, flush=True)
    async with server:
        await server.serve_forever()


def main() -> None:
    """Relay until it is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("target", type=int)
    parser.add_argument("seconds", type=float)
    chosen = parser.parse_args()
    uvloop.run(_serve(chosen.port, chosen.target, chosen.seconds))


if __name__ == "__main__":
    main()
