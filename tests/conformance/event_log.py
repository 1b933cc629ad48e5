"""An event store in memory, so that a 2025-era client can resume a stream that was closed on it."""

from __future__ import annotations

from mcp.server.streamable_http import EventCallback, EventMessage, EventStore
from mcp.types import JSONRPCMessage


class EventLog(EventStore):
    """All events of all streams in one list; an event's id is its place, counted from one."""

    def __init__(self) -> None:
        self._events: list[tuple[str, JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        """Append and return the id; a `None` message primes a stream and is never sent again."""
        self._events.append((stream_id, message))
        return str(len(self._events))

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        """Send what the stream of `last_event_id` has had since, and return that stream."""
        place = int(last_event_id) if last_event_id.isdecimal() else 0
        if not 0 < place <= len(self._events):
            return None
        stream, _ = self._events[place - 1]
        for number, (owner, message) in enumerate(self._events[place:], start=place + 1):
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream
