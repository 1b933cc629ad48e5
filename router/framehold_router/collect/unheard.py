"""Nodes that are live although the store has no lease of them, because no node can write to the store.

The law: this decides where requests are sent, and no safety rests on it: each node decides by its own lease what it may
do. A node without a lease stays in the view only while it answers and no node can write. If one node can write, the
store takes writes, and a node without a lease is dead or cut off: others take its calls over.

    1. the store is full: it answers reads and refuses heartbeats, so all leases run out
    2. the router finds a lease gone, and asks all nodes that it knows; each answers that its last heartbeat failed
    3. the nodes that answer stay in the view. They serve what needs no store, and refuse the rest with the cause
    4. a node that accepts no connection is forgotten. One that gives no answer MAX_MISSED times in a row leaves the
       view until it answers
    5. a node answers that its last heartbeat was written: the outage is over, and leases decide again
    6. if a node without a lease answers so, the store has lost its lease: no node is gone for want of one until they
       have had time to register again. A node is believed so once, until it has a lease: its heartbeat may stand still
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from framehold_core.ids import Boot, Incarnation, NodeId
from framehold_fleet.members.membership import DRAINING, Member

_log = logging.getLogger(__name__)

MAX_MISSED = 2
"""How often in a row a node may give no answer before it leaves the view. A busy node may be late once."""
_GRACE = 0.25
"""Seconds that a node without a lease has for its answer when another one has answered that it can write."""


class NodeAnswer(NamedTuple):
    """The answer of a node about itself. `writes`: whether the store took its last heartbeat."""

    inc: Incarnation
    boot: Boot
    draining: bool
    writes: bool


class WhyUnheard(Enum):
    """Why a node gave no answer about itself."""

    GONE = auto()
    """Nobody accepts a connection at its address, or another node does."""
    LATE = auto()
    """It did not answer in time."""
    UNREAD = auto()
    """It answered, and not with a status that can be read: it lives, and says nothing of the store."""


Ask = Callable[[Member], Awaitable[NodeAnswer | WhyUnheard]]


@dataclass(slots=True)
class _Candidate:
    member: Member
    missed: int = 0


class UnheardNodes:
    """The nodes of one fleet that have no lease and may be live. `ask` asks a node for its state."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._candidates: dict[NodeId, _Candidate] = {}
        self._believed: set[NodeId] = set()
        """Nodes that were absent when the store had lost leases, and have had none since."""
        self._logged = False

    async def kept(
        self, absent: Mapping[NodeId, Member], leased: Mapping[NodeId, Member]
    ) -> Mapping[NodeId, Member] | None:
        """The nodes without a lease that stay in the view; None if a node can write to the store, or all of `absent` if
        one of these can: then the store has lost leases. `absent` are the nodes of the last view whose leases are not
        known, `leased` those that have a lease."""
        for node, member in absent.items():
            self._candidates.setdefault(node, _Candidate(member)).member = member
        for node in leased:
            self._candidates.pop(node, None)
        self._believed &= self._candidates.keys() | absent.keys()
        if not self._candidates:
            return {}
        answers = await self._ask_all(leased.values())
        if any(map(_writes, answers.values())):
            has_lost = any(self._lost_lease(node, answer) for node, answer in answers.items())
            if has_lost:
                self._believed |= absent.keys()
            self._candidates.clear()
            self._log({})
            return absent if has_lost else None
        for node in tuple(self._candidates):
            self._take(node, answers[node])
        kept = {node: found.member for node, found in self._candidates.items() if found.missed < MAX_MISSED}
        self._log(kept)
        return kept

    async def _ask_all(self, leased: Iterable[Member]) -> dict[NodeId, NodeAnswer | WhyUnheard]:
        """The answers of all nodes. As soon as one answers that it can write, nobody waits for those that have a lease,
        and for the others `_GRACE` seconds."""
        asked = {
            found.member.node: asyncio.ensure_future(self._ask(found.member)) for found in self._candidates.values()
        }
        others = {member.node: asyncio.ensure_future(self._ask(member)) for member in leased}
        tasks = [*asked.values(), *others.values()]
        try:
            for answer in asyncio.as_completed(tasks):
                if _writes(await answer):
                    await asyncio.wait(asked.values(), timeout=_GRACE)
                    break
        finally:
            for task in tasks:
                task.cancel()
        return {node: task.result() for node, task in {**asked, **others}.items() if task.done()}

    def _lost_lease(self, node: NodeId, answer: NodeAnswer | WhyUnheard) -> bool:
        """Whether a node has no lease, and the store took its last heartbeat. One that drains may have given its lease
        back."""
        found = self._candidates.get(node)
        if found is None or node in self._believed or not isinstance(answer, NodeAnswer):
            return False
        return answer.writes and not answer.draining and answer.boot == found.member.boot

    def _take(self, node: NodeId, answer: NodeAnswer | WhyUnheard) -> None:
        """Take in the answer of a node without a lease."""
        candidate = self._candidates[node]
        if answer is WhyUnheard.GONE:
            del self._candidates[node]
        elif answer is WhyUnheard.UNREAD:
            candidate.missed = 0
        elif isinstance(answer, NodeAnswer):
            # It may be the next process under this name: it can't register at present.
            state = DRAINING if answer.draining else candidate.member.state
            candidate.member = candidate.member._replace(inc=answer.inc, boot=answer.boot, state=state)
            candidate.missed = 0
        else:
            candidate.missed += 1

    def _log(self, kept: Mapping[NodeId, Member]) -> None:
        """Log one line when nodes are kept without a lease, and one when that ends."""
        if kept and not self._logged:
            _log.warning(
                "no node can write to the store: requests are sent to the nodes that answer, though their leases have "
                "run out or can't be read: %.300s",
                ", ".join(sorted(kept)),
            )
        elif not kept and self._logged:
            _log.info("requests are sent to the nodes that have a lease again")
        self._logged = bool(kept)


def _writes(answer: NodeAnswer | WhyUnheard) -> bool:
    return isinstance(answer, NodeAnswer) and answer.writes
