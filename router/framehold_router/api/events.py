"""The latest events of the nodes and of this router."""

from __future__ import annotations

from ..models.events import EventsView, EventView
from .event_logs import Gathered
from .sources import Asked, Sources

MAX_EVENTS_SHOWN = 500
"""Events that are listed at most."""


class Events:
    """The latest events, for one router. The sorted list is kept until something new has happened."""

    def __init__(self) -> None:
        self._of = -1, -1
        self._latest: list[EventView] = []

    async def answer(self, sources: Sources, asked: Asked) -> EventsView:
        """`GET events`."""
        return EventsView(events=self.latest(sources, await sources.event_logs.gathered()))

    def latest(self, sources: Sources, gathered: Gathered) -> list[EventView]:
        """The latest events, the newest first, at most MAX_EVENTS_SHOWN."""
        of = gathered.changes, sources.departures.changes
        if of != self._of:
            of_nodes = (event for log in (*gathered.here, *gathered.gone) for event in log.events)
            events = sorted((*of_nodes, *sources.departures.events()), key=_place, reverse=True)
            self._of, self._latest = of, events[:MAX_EVENTS_SHOWN]
        return self._latest


def _place(event: EventView) -> tuple[float, str, str]:
    return event.at, event.node_id, event.id
