"""Sends changes of the fleet to readers as server-sent events: `overview`, `nodes`, and each new `event`.

The law: the state of the fleet is read once a second for all readers together, and not at all while there are none.
Nobody waits for a slow reader: up to MAX_QUEUED_MESSAGES messages wait for it, then its connection is broken, and it
may connect again.

    1. the first reader connects: the router begins to read the state every second, and sends the first result
    2. another reader connects: it gets the last result at once, and then each change, as all readers do
    3. a read fails by a bug: the failure is logged, and the next read follows as usual
    4. the last reader leaves: the reads end, and their results are forgotten
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web
from pydantic import BaseModel

from framehold_fleet.models.events import EventView
from framehold_fleet.models.nodes import NodesView, OverviewView

_log = logging.getLogger(__name__)

MAX_READERS = 100
MAX_QUEUED_MESSAGES = 64
LOOK_PAUSE = 1.0
"""Seconds between two reads of the state."""
KEEP_ALIVE_PAUSE = 5.0
"""Seconds without a message after which a reader gets a comment that keeps its connection open."""
_BEGIN = b"retry: 2000\n\n"
_ALIVE = b": nothing has changed\n\n"

Look = Callable[[], Awaitable[tuple[OverviewView, NodesView, list[EventView]]]]
"""Reads the state of the fleet: overview, nodes, and the latest events in any order."""


class Full(Exception):
    """A reader is refused: there are MAX_READERS readers already, or the router ends."""


class _StreamReader:
    """The connection of one reader. `messages` holds the messages that were not sent yet; None ends the connection."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self.messages: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_QUEUED_MESSAGES)

    @property
    def gone(self) -> bool:
        """Whether the client has left."""
        return self._request.transport is None or self._request.transport.is_closing()

    def send(self, message: bytes) -> None:
        try:
            self.messages.put_nowait(message)
        except asyncio.QueueFull:
            self.end()

    def end(self) -> None:
        """Break the connection at once, and drop its messages."""
        if self._request.transport is not None:
            self._request.transport.abort()
        while not self.messages.empty():
            self.messages.get_nowait()
        self.messages.put_nowait(None)


class Stream:
    """All readers of one router. `look` reads the state of the fleet. Belongs to one event loop; `close` it."""

    def __init__(self, look: Look, look_pause: float = LOOK_PAUSE, keep_alive_pause: float = KEEP_ALIVE_PAUSE) -> None:
        self._look, self._look_pause, self._keep_alive_pause = look, look_pause, keep_alive_pause
        self._readers: set[_StreamReader] = set()
        self._task: asyncio.Task[None] | None = None
        self._last_messages: dict[str, tuple[str, bytes]] = {}
        self._known: set[tuple[str, str]] | None = None
        self._closed = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one reader, until it leaves.

        Raises:
            Full: there are too many readers, or the router ends.
        """
        if len(self._readers) >= MAX_READERS:
            self._end_gone_readers()
        if self._closed or len(self._readers) >= MAX_READERS:
            raise Full
        response = web.StreamResponse(headers={"X-Accel-Buffering": "no"})
        response.content_type, response.charset = "text/event-stream", "utf-8"
        reader = _StreamReader(request)
        self._readers.add(reader)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="framehold stream")
        for _, last in self._last_messages.values():
            reader.send(last)
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
        """End the connections of all readers, and accept no reader any more."""
        self._closed = True
        self._stop()
        for reader in self._readers:
            reader.end()

    def _end_gone_readers(self) -> None:
        """Remove the readers that have left, so that others can connect."""
        for reader in tuple(self._readers):
            if reader.gone:
                self._readers.discard(reader)
                reader.end()

    async def _next(self, reader: _StreamReader) -> bytes | None:
        try:
            return await asyncio.wait_for(reader.messages.get(), self._keep_alive_pause)
        except TimeoutError:
            return _ALIVE

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task, self._last_messages, self._known = None, {}, None

    async def _run(self) -> None:
        while True:
            try:
                overview, nodes, events = await self._look()
                self._show("overview", overview, overview.model_dump_json(exclude={"at"}))
                self._show("nodes", nodes, nodes.model_dump_json())
                self._show_new(events)
            except Exception:
                _log.exception("a bug in looking at the fleet: readers got nothing; the next look comes as ever")
            await asyncio.sleep(self._look_pause)

    def _show(self, name: str, view: BaseModel, compared: str) -> None:
        before, _ = self._last_messages.get(name, ("", b""))
        # Kept even if nothing changed: a new reader must get the time `at` of the last read, not of the last change.
        message = _message(name, view)
        self._last_messages[name] = compared, message
        if compared != before:
            self._send_to_all(message)

    def _show_new(self, events: Iterable[EventView]) -> None:
        """Send the events that no earlier read had. The first read sends none: the overview has its events."""
        found = sorted(events, key=lambda event: (event.at, event.node_id, event.id))
        if self._known is not None:
            for event in found:
                if (event.node_id, event.id) not in self._known:
                    self._send_to_all(_message("event", event))
        # Earlier events stay known: a node that did not answer this time must not have its events sent again.
        kept = {(event.node_id, event.id) for event in found}
        self._known = kept | (self._known or set()) if len(kept) + len(self._known or ()) < _MAX_KNOWN_EVENTS else kept

    def _send_to_all(self, message: bytes) -> None:
        for reader in tuple(self._readers):
            reader.send(message)


_MAX_KNOWN_EVENTS = 100_000


def _message(name: str, view: BaseModel) -> bytes:
    # JSON escapes line breaks, so the data is always one line.
    return f"event: {name}\ndata: {view.model_dump_json()}\n\n".encode()
