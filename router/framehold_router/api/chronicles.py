"""What the nodes' chronicles told this router of events and takeovers, and how they are asked for more.

    1. a node is asked for all that it remembers, and tells its `seq`
    2. from then on it is asked for what came after that
    3. another process answers for it: what came after is not what was missed, so it is asked for all
    4. its lease is gone: what it had told stands, but what was under way there has failed
    5. its lease is back, and the same process answers: it goes on from 2

The law: bounded, whatever is told. Of one life of a node the last KEPT of each kind are kept, as the node does; of a
life that is gone for AFTERWARDS seconds nothing, and of all that are gone no more than FORMER things: those that went
first are forgotten first. A node of an older release tells no `seq`: it is asked for all each time, and what it tells
takes the place of what it had told.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeVar

from framehold_core.ids import Boot, NodeId

from ..membership import Fleet, Member
from ..shared import Shared
from .about_events import Happened
from .ask import Asker, Unanswered
from .fields import printable

PATH = "/admin/events"
LONGEST = 4 * 1024 * 1024
"""Bytes of what a node remembers: 500 events and 500 takeovers."""
KEPT = 500
"""Events, and takeovers, of one life."""
FORMER = 10_000
"""Events and takeovers of all lives that are gone: as much as ten nodes remember."""
AFTERWARDS = 3600.0

Name = tuple[NodeId, Boot]
"""Of one life of a node."""
Item = TypeVar("Item")


class Gathered(NamedTuple):
    """What the lives that are `here`, and those that are `gone`, have told. `changes` is another number whenever any of
    it has changed."""

    here: tuple[Happened, ...] = ()
    gone: tuple[Happened, ...] = ()
    changes: int = 0


class Life:
    """One life of a node, and what it `told`. `gone` is when it was first found without a lease, None while it has
    one."""

    def __init__(self, name: Name) -> None:
        self.told = _nothing(name)
        self.gone: float | None = None
        self._ended: Happened | None = None

    def take(self, said: Happened) -> None:
        """An answer: what came after what it had told, or all that it remembers."""
        told = self.told
        news = said.events or said.takeovers or said.fenced != told.fenced
        if said.seq < told.seq or (said.seq == told.seq and not news):
            # Nothing came; or a later answer was here first, and some of this one is older than what that one told.
            return
        before = told if said.seq else _nothing((told.node_id, told.boot))
        events = _last((*before.events, *said.events), lambda event: event.id)
        takeovers = _last((*before.takeovers, *said.takeovers), lambda item: (item.call, item.epoch, item.asked))
        self.told, self._ended = said.model_copy(update={"events": events, "takeovers": takeovers}), None

    @property
    def ended(self) -> Happened:
        """What it told, now that it is gone: nobody there goes on with what was under way."""
        if self._ended is None:
            failed = {"outcome": "failed"}
            takeovers = tuple(
                item.model_copy(update=failed) if item.outcome == "under way" else item for item in self.told.takeovers
            )
            self._ended = self.told.model_copy(update={"takeovers": takeovers})
        return self._ended


class Chronicles:
    """Those of one fleet. `clock` gives seconds that never go back. Belongs to one event loop; `close` it."""

    def __init__(self, fleet: Callable[[], Fleet], asker: Asker, clock: Callable[[], float] = time.monotonic) -> None:
        self._fleet, self._asker, self._clock = fleet, asker, clock
        self._shared = Shared(fleet, self._gather, "framehold chronicles")
        self._lives: dict[Name, Life] = {}
        self._answering: dict[Name, Name] = {}
        """By lease: which life of its node answered last."""
        self._gathered = Gathered()

    async def gathered(self) -> Gathered:
        """What all nodes have told, asked for what is new."""
        return await self._shared.result()

    async def close(self) -> None:
        """Ask no longer."""
        await self._shared.close()

    async def _gather(self) -> Gathered:
        await asyncio.gather(*map(self._ask, self._fleet().members.values()))
        leases = {_lease(member) for member in self._fleet().members.values()}
        self._answering = {lease: name for lease, name in self._answering.items() if lease in leases}
        here = {self._answering.get(lease, lease) for lease in leases}
        self._forget(here)
        lives = sorted(self._lives.items())
        told = tuple(life.told for name, life in lives if name in here)
        ended = tuple(life.ended for name, life in lives if name not in here)
        if (told, ended) != self._gathered[:2]:
            self._gathered = Gathered(told, ended, self._gathered.changes + 1)
        return self._gathered

    async def _ask(self, member: Member) -> None:
        lease = _lease(member)
        life = self._lives.get(self._answering.get(lease, lease))
        after = life.told.seq if life is not None else 0
        try:
            said = await self._say(member, after)
            if life is not None and after and said.boot != life.told.boot:
                said = await self._say(member, 0)
        except Unanswered:
            return
        if said.node_id != printable(member.node):
            # Another node at this address: the lease is of one that has gone.
            return
        name = self._answering[lease] = NodeId(said.node_id), Boot(said.boot)
        self._lives.setdefault(name, Life(name)).take(said)

    async def _say(self, member: Member, after: int) -> Happened:
        """Raises Unanswered."""
        path = f"{PATH}?after={after}" if after else PATH
        return await self._asker.ask(member, path, Happened, longest=LONGEST)

    def _forget(self, here: set[Name]) -> None:
        """What is too old, or too much, of lives that are gone."""
        now, room = self._clock(), FORMER
        for name, life in self._lives.items():
            life.gone = None if name in here else now if life.gone is None else life.gone
        gone = [(life.gone, name, life) for name, life in self._lives.items() if life.gone is not None]
        for since, name, life in sorted(gone, key=lambda item: item[0], reverse=True):
            size = len(life.told.events) + len(life.told.takeovers)
            room -= size
            if not size or room < 0 or since < now - AFTERWARDS:
                del self._lives[name]


def _lease(member: Member) -> Name:
    return member.node, member.boot


def _nothing(name: tuple[str, str]) -> Happened:
    return Happened(node_id=name[0], boot=name[1])


def _last(items: Iterable[Item], key: Callable[[Item], Hashable]) -> tuple[Item, ...]:
    """The last KEPT, each by its key once: where it first stood, as it was last told."""
    return tuple({key(item): item for item in items}.values())[-KEPT:]
