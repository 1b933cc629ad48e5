"""What nodes remember of events and takeovers, gathered from all of them."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable

from ..membership import Member
from .about_events import EventsView, EventView, Happened
from .ask import Unanswered
from .sources import Asked, Sources

PATH = "/admin/events"
LONGEST = 4 * 1024 * 1024
"""Bytes of what a node remembers: 500 events and 500 takeovers."""
SHOWN = 500
"""How many events are told at most."""


async def gather(sources: Sources) -> list[Happened]:
    """What each node that answers remembers."""

    async def ask(member: Member) -> Happened | None:
        try:
            return await sources.asker.ask(member, PATH, Happened, longest=LONGEST)
        except Unanswered:
            return None

    said = await asyncio.gather(*map(ask, sources.fleet().members.values()))
    # A node that came back by another name answers for its former lease too.
    return list({(item.node_id, item.boot): item for item in said if item is not None}.values())


def latest(sources: Sources, said: Iterable[Happened], count: int = SHOWN) -> list[EventView]:
    """The latest events of the nodes and of this router, the newest first."""
    events = [event for item in said for event in item.events] + sources.departures.events()
    return heapq.nlargest(count, events, key=lambda event: (event.at, event.node_id, event.id))


async def answer(sources: Sources, asked: Asked) -> EventsView:
    """`GET events`."""
    return EventsView(events=latest(sources, await gather(sources)))
