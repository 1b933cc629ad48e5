"""Collects the event logs of the nodes: their events and takeovers. A life of a node is one process that has its name.

    1. the router asks a node for all that it remembers; the answer has a `seq`
    2. from then on the router asks only for entries after that `seq`
    3. another process answers: its `seq` counts other entries, so the router asks it for all
    4. the lease of the node is gone: its entries are kept, and its takeovers that were under way count as failed
    5. the lease is back and the same process answers: step 2 again

The law: memory is bounded, whatever the nodes send. For one life of a node the last MAX_PER_LIFE events and as many
takeovers are kept; the node keeps as many. A life whose lease is gone for FORGET_AFTER seconds is forgotten. All lives
whose leases are gone keep MAX_OF_GONE_LIVES entries together; the life that went first is forgotten first. A node of an
older release sends no `seq`: it is asked for all each time, and its answer replaces the one before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable
from typing import NamedTuple, TypeVar

from framehold_core.ids import Boot, NodeId

from ..fleet.membership import Fleet, Member
from ..models.events import Happened
from ..models.fields import printable
from .node_client import NodeClient, Unanswered
from .shared_look import Shared

PATH = "/admin/events"
MAX_ANSWER_BYTES = 4 * 1024 * 1024
"""Bytes of one answer at most: a node remembers 500 events and 500 takeovers."""
MAX_PER_LIFE = 500
"""Events of one life that are kept at most, and takeovers."""
MAX_OF_GONE_LIVES = 10_000
"""Events and takeovers that are kept of all lives whose leases are gone: as many as ten nodes remember."""
FORGET_AFTER = 3600.0
"""Seconds after which a life whose lease is gone is forgotten."""

Name = tuple[NodeId, Boot]
"""Names one life of a node: the node and its boot."""
Item = TypeVar("Item")


class Gathered(NamedTuple):
    """The logs of all lives: `here` are those that have a lease, `gone` those that have none. `changes` grows whenever
    a log has changed."""

    here: tuple[Happened, ...] = ()
    gone: tuple[Happened, ...] = ()
    changes: int = 0


class Life:
    """One life of a node and its `log`. `gone` is when it was first found without a lease, in seconds on the clock of
    `EventLogs`; None while it has a lease."""

    def __init__(self, name: Name) -> None:
        self.log = _empty_log(name)
        self.gone: float | None = None
        self._ended: Happened | None = None

    def add(self, answer: Happened) -> None:
        """Add the entries of an answer to the log: entries after its `seq`, or all that the node remembers."""
        log = self.log
        new = answer.events or answer.takeovers or answer.fenced != log.fenced
        if answer.seq < log.seq or (answer.seq == log.seq and not new):
            # Nothing is new, or a later answer has overtaken this one and has all of it.
            return
        before = log if answer.seq else _empty_log((log.node_id, log.boot))
        events = _last((*before.events, *answer.events), lambda event: event.id)
        takeovers = _last((*before.takeovers, *answer.takeovers), lambda item: (item.call, item.epoch, item.asked))
        self.log, self._ended = answer.model_copy(update={"events": events, "takeovers": takeovers}), None

    @property
    def ended(self) -> Happened:
        """The log of a life that is gone: its takeovers that were under way count as failed."""
        if self._ended is None:
            failed = {"outcome": "failed"}
            takeovers = tuple(
                item.model_copy(update=failed) if item.outcome == "under way" else item for item in self.log.takeovers
            )
            self._ended = self.log.model_copy(update={"takeovers": takeovers})
        return self._ended


class EventLogs:
    """The event logs of the nodes of one fleet. `clock` gives seconds that never go back. Belongs to one event loop;
    `close` it."""

    def __init__(
        self, fleet: Callable[[], Fleet], node_client: NodeClient, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._fleet, self._node_client, self._clock = fleet, node_client, clock
        self._shared = Shared(fleet, self._gather, "framehold chronicles")
        self._lives: dict[Name, Life] = {}
        self._answering: dict[Name, Name] = {}
        """For each lease the life of its node that answered last."""
        self._gathered = Gathered()

    async def gathered(self) -> Gathered:
        """Ask all nodes for new entries, and return all logs. A node that does not answer has its log as it was."""
        return await self._shared.result()

    async def close(self) -> None:
        """Stop to ask nodes."""
        await self._shared.close()

    async def _gather(self) -> Gathered:
        await asyncio.gather(*map(self._ask, self._fleet().members.values()))
        leases = {_lease(member) for member in self._fleet().members.values()}
        self._answering = {lease: name for lease, name in self._answering.items() if lease in leases}
        here = {self._answering.get(lease, lease) for lease in leases}
        self._forget(here)
        lives = sorted(self._lives.items())
        logs = tuple(life.log for name, life in lives if name in here)
        ended = tuple(life.ended for name, life in lives if name not in here)
        if (logs, ended) != self._gathered[:2]:
            self._gathered = Gathered(logs, ended, self._gathered.changes + 1)
        return self._gathered

    async def _ask(self, member: Member) -> None:
        lease = _lease(member)
        life = self._lives.get(self._answering.get(lease, lease))
        after = life.log.seq if life is not None else 0
        try:
            answer = await self._get(member, after)
            if life is not None and after and answer.boot != life.log.boot:
                answer = await self._get(member, 0)
        except Unanswered:
            return
        if answer.node_id != printable(member.node):
            # Another node has this address now: the lease is of a node that has gone.
            return
        name = self._answering[lease] = NodeId(answer.node_id), Boot(answer.boot)
        self._lives.setdefault(name, Life(name)).add(answer)

    async def _get(self, member: Member, after: int) -> Happened:
        """The entries of a node after the `seq` `after`; all entries for 0.

        Raises:
            Unanswered: the node gave no answer that can be read.
        """
        path = f"{PATH}?after={after}" if after else PATH
        return await self._node_client.ask(member, path, Happened, max_bytes=MAX_ANSWER_BYTES)

    def _forget(self, here: set[Name]) -> None:
        """Forget lives that are gone and too old, or beyond the limit. `here` names the lives that have a lease."""
        now, left = self._clock(), MAX_OF_GONE_LIVES
        for name, life in self._lives.items():
            life.gone = None if name in here else now if life.gone is None else life.gone
        gone = [(life.gone, name, life) for name, life in self._lives.items() if life.gone is not None]
        for since, name, life in sorted(gone, key=lambda item: item[0], reverse=True):
            size = len(life.log.events) + len(life.log.takeovers)
            left -= size
            if not size or left < 0 or since < now - FORGET_AFTER:
                del self._lives[name]


def _lease(member: Member) -> Name:
    return member.node, member.boot


def _empty_log(name: tuple[str, str]) -> Happened:
    return Happened(node_id=name[0], boot=name[1])


def _last(items: Iterable[Item], key: Callable[[Item], Hashable]) -> tuple[Item, ...]:
    """The last MAX_PER_LIFE of `items`. Of several items with one key the last is kept, at the place of the first."""
    return tuple({key(item): item for item in items}.values())[-MAX_PER_LIFE:]
