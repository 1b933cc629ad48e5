"""The line between one node and its store, on which bytes can vanish as on a network: without a word to either end.

    1. `swallow` holds back what either end sends, or what one of them does: connections stay, and new ones are made
    2. `heal(late=True)` lets what was held back through, as TCP does that sent it again and again: a write may arrive
       long after its sender has given it up
    3. `heal(late=False)` breaks the connections of that time: what they carried never arrives

It runs in a thread of its own, so that it goes on whatever the test's loop does.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any


class Line:
    """A TCP proxy to a port of this machine."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._ways = {way: asyncio.Event() for way in ("requests", "replies")}
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread.start()
        self._server: asyncio.Server = self._do(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port: int = self._server.sockets[0].getsockname()[1]
        self.heal()

    def swallow(self, *, requests: bool = True, replies: bool = True) -> None:
        """From now on nothing of that reaches its end."""
        self._do(self._set(requests=not requests, replies=not replies))

    def heal(self, *, late: bool = True) -> None:
        """Everything passes again. `late`: also what was held back meanwhile."""
        self._do(self._set(requests=True, replies=True, cut=not late))

    def close(self) -> None:
        """Break everything off, and end the thread."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _set(self, cut: bool = False, **passes: bool) -> None:
        if cut:
            for writer in tuple(self._writers):
                writer.transport.abort()
        for way, open_ in passes.items():
            self._ways[way].set() if open_ else self._ways[way].clear()

    async def _end(self) -> None:
        self._server.close()
        running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        self._writers.add(writer)
        try:
            upstream, out = await asyncio.open_connection("127.0.0.1", self._target)
            ends.add(out)
            self._writers.add(out)
            await asyncio.gather(self._pump("requests", reader, out), self._pump("replies", upstream, writer))
        except (OSError, asyncio.CancelledError):
            # One end broke off, or the line is closed.
            pass
        finally:
            self._writers -= ends
            for end in ends:
                end.transport.abort()

    async def _pump(self, way: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            await self._ways[way].wait()
            writer.write(data)
            await writer.drain()
        # The end of a stream travels as its bytes do.
        await self._ways[way].wait()
        raise ConnectionResetError
