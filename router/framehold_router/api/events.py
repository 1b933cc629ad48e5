"""The latest events of the fleet, from its event log."""

from __future__ import annotations

from ..models.events import EventsView
from .sources import Asked, Sources


async def answer(sources: Sources, asked: Asked) -> EventsView:
    """`GET events`."""
    return EventsView(events=list((await sources.log.logged()).events))
