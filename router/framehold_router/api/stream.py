"""Tells readers what changes, as server-sent events: `overview`, `nodes`, and each new `event`.

The law: the fleet is looked at once a second for all readers, and not at all without one. Nobody waits for a reader:
what one has not read yet is kept up to QUEUED messages, then its connection is broken, and it may come again.

    1. the first reader comes: the looks begin, and its messages with the first of them
    2. another comes: it is told at once what the last look found, then what changes, like all
    3. a look fails by a bug: it is logged, and the next one comes as ever
    4. the last reader leaves: the looks end, and what they found is forgotten
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web
from pydantic import BaseModel

from .about_events import EventView
from .about_nodes import NodesView, OverviewView

_log = logging.getLogger(__name__)

READERS = 100
QUEUED = 64
EVERY = 1.0
"""Seconds between two looks."""
QUIET = 5.0
"""Seconds without a word after which a reader is told that the connection lives."""
_BEGIN = b"retry: 2000\n\n"
_ALIVE = b": nothing has changed\n\n"

Look = Callable[[], Awaitable[tuple[OverviewView, NodesView, list[EventView]]]]
"""The fleet now, and its latest events, in any order."""


class Full(Exception):
    """There are READERS readers already, or the router ends."""


class _Reader:
    """One connection. `messages` holds what it was not sent yet; None ends it."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.messages: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED)

    @property
    def gone(self) -> bool:
        """Whether it has left: nothing tells, but where something is sent."""
        return self._request.transport is None or self._request.transport.is_closing()

    def tell(self, message: bytes) -> None:
        try:
            self.messages.put_nowait(message)
        except asyncio.QueueFull:
            self.end()

    def end(self) -> None:
        """Break the connection: whoever writes to it learns of it now."""
        if self._request.transport is not None:
            self._request.transport.abort()
        while not self.messages.empty():
            self.messages.get_nowait()
        self.messages.put_nowait(None)


class Stream:
    """All readers of one router, and the looks for them. Belongs to one event loop; `close` it."""

    def __init__(self, look: Look, every: float = EVERY, quiet: float = QUIET) -> None:
        self._look, self._every, self._quiet = look, every, quiet
        self._readers: set[_Reader] = set()
        self._task: asyncio.Task[None] | None = None
        self._told: dict[str, tuple[str, bytes]] = {}
        self._known: set[tuple[str, str]] | None = None
        self._closed = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one reader, for as long as it reads.

        Raises:
            Full: it isn't served.
        """
        if len(self._readers) >= READERS:
            self._let_go()
        if self._closed or len(self._readers) >= READERS:
            raise Full
        response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
        response.content_type, response.charset = "text/event-stream", "utf-8"
        reader = _Reader(request)
        self._readers.add(reader)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="framehold stream")
        for _, last in self._told.values():
            reader.tell(last)
        try:
            await response.prepare(request)
            await response.write(_BEGIN)
            while (message := await self._next(reader)) is not None:
                await response.write(message)
        except ConnectionError:
            pass
        finally:
            self._readers.discard(reader)
            if not self._readers:
                self._stop()
        return response

    def close(self) -> None:
        """End all readers, and serve none any more."""
        self._closed = True
        self._stop()
        for reader in self._readers:
            reader.end()

    def _let_go(self) -> None:
        """End those who have left: they take nobody's place."""
        for reader in tuple(self._readers):
            if reader.gone:
                self._readers.discard(reader)
                reader.end()

    async def _next(self, reader: _Reader) -> bytes | None:
        try:
            return await asyncio.wait_for(reader.messages.get(), self._quiet)
        except TimeoutError:
            return _ALIVE

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task, self._told, self._known = None, {}, None

    async def _run(self) -> None:
        while True:
            try:
                overview, nodes, events = await self._look()
                self._show("overview", overview, overview.model_dump_json(exclude={"at"}))
                self._show("nodes", nodes, nodes.model_dump_json())
                self._show_new(events)
            except Exception:
                _log.exception("a bug in looking at the fleet: readers were told nothing; the next look comes as ever")
            await asyncio.sleep(self._every)

    def _show(self, name: str, view: BaseModel, compared: str) -> None:
        before, _ = self._told.get(name, ("", b""))
        # Whoever comes is told the last look, and by its `at` what time it is: not that of the last change.
        message = _message(name, view)
        self._told[name] = compared, message
        if compared != before:
            self._tell(message)

    def _show_new(self, events: Iterable[EventView]) -> None:
        """Those of the first look are known: the overview has them."""
        found = sorted(events, key=lambda event: (event.at, event.node_id, event.id))
        if self._known is not None:
            for event in found:
                if (event.node_id, event.id) not in self._known:
                    self._tell(_message("event", event))
        # A node that did not answer this time must not have all of its events told again.
        kept = {(event.node_id, event.id) for event in found}
        self._known = kept | (self._known or set()) if len(kept) + len(self._known or ()) < _REMEMBERED else kept

    def _tell(self, message: bytes) -> None:
        for reader in tuple(self._readers):
            reader.tell(message)


_REMEMBERED = 100_000


def _message(name: str, view: BaseModel) -> bytes:
    # JSON has no line break of its own: whatever a text holds, a message is one line.
    return f"event: {name}\ndata: {view.model_dump_json()}\n\n".encode()
