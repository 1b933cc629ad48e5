"""The latest events of the nodes and of this router."""

from __future__ import annotations

from .about_events import EventsView, EventView
from .chronicles import Gathered
from .sources import Asked, Sources

SHOWN = 500
"""How many events are told at most."""


class Events:
    """One for each router: as long as nothing new happens, what was put in order stays so."""

    def __init__(self) -> None:
        self._of = -1, -1
        self._latest: list[EventView] = []

    async def answer(self, sources: Sources, asked: Asked) -> EventsView:
        """`GET events`."""
        return EventsView(events=self.latest(sources, await sources.chronicles.gathered()))

    def latest(self, sources: Sources, gathered: Gathered) -> list[EventView]:
        """No more than SHOWN, the newest first."""
        of = gathered.changes, sources.departures.changes
        if of != self._of:
            told = (event for said in (*gathered.here, *gathered.gone) for event in said.events)
            events = sorted((*told, *sources.departures.events()), key=_place, reverse=True)
            self._of, self._latest = of, events[:SHOWN]
        return self._latest


def _place(event: EventView) -> tuple[float, str, str]:
    return event.at, event.node_id, event.id
