"""I8 sealed and I9 bounded, and whose word a claim rests on, as the world can see them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from framehold_core.call import Phase
from framehold_core.ids import NodeId
from framehold_core.lease import NodeRecord
from framehold_core.requests import Claim, Commit, Evidence, Record, Reply, Request, Stored, Verdict

from .handlers import parse
from .tokens import Token

if TYPE_CHECKING:
    from .clients import Request as Asked
    from .scripts import Slot
    from .world import World

Fail = Callable[[str, str], None]

MAX_CLAIMS, MAX_HOPS, MAX_TRIES = 5, 1, 3
"""Claims of one round, nodes that pass a request on, and times that one of them does: as docs/protocol.md has them,
whatever the code says."""

ALONE = 0.3
"""Seconds for which a suspect that was entered is the only one, clocks allowed for."""


class BoundWatch:
    """What was minted, claimed and passed on. `fail` stops the schedule."""

    def __init__(self, world: World, fail: Fail) -> None:
        self._world = world
        self._fail = fail
        self._minted: set[Token] = set()
        self._claims: dict[tuple[str, int], int] = {}
        self._reported: set[str] = set()
        self._forgiven: set[str] = set()
        self._entered_at: dict[Slot, float] = {}
        self._blamed: dict[tuple[str, int], int] = {}
        """Claims of a round, since what was held against its handler was forgotten, from processes that ended in it."""

    # ---- what the world reports

    def minted(self, token: Token) -> None:
        """A node seals a token."""
        self._minted.add(token)

    def applied(self, request: Request, before: Stored | None, after: Stored | None, reply: Reply) -> None:
        """A script ran."""
        if isinstance(request, Commit) and reply.verdict is Verdict.OK and after is not None and after.record.attempts:
            self._fail("I9 bounded", f"{request.call} has moved on and its attempts are not forgiven")
        if not isinstance(request, Claim) or before is None or not self._world.watch.holds(request.call, "I9"):
            return
        place = request.call, before.record.round
        own = request.evidence is Evidence.OWNER and request.boot == before.record.head.boot
        if reply.verdict is Verdict.OK and not own and request.evidence is not Evidence.RELEASED:
            self._claims[place] = self._claims.get(place, 0) + 1
        self.i9_stuck_at_five(place, reply)
        ended = request.evidence is Evidence.GONE or (request.evidence is Evidence.OWNER and not own)
        held = before.record.attempts > 1 and before.record.head.boot not in self._forgiven
        if reply.verdict is Verdict.OK and ended and held:
            self._blamed[place] = self._blamed.get(place, 0) + 1
            self.i9_paused(place)

    def forgiven(self) -> None:
        """What was held against a handler is forgotten. Claims from processes that were reported before may be on
        their way."""
        self._blamed.clear()
        self._forgiven = set(self._reported)

    def reported(self, boot: str) -> None:
        """The end of a process is held against a handler."""
        self._reported.add(boot)

    # ---- the invariants

    def i8_sealed(self, what: Asked) -> None:
        """No call hears of a token but those that a node has sealed, for this call and this user, and not too long
        ago."""
        token = what.token
        if token not in self._minted:
            self._fail("I8 sealed", f"{what.call} hears of a token that no node has sealed")
        elif (token.call, token.user) != (what.call, what.user):
            self._fail("I8 sealed", f"{what.call} hears of another's token")
        elif token.expires <= self._world.now:
            self._fail("I8 sealed", f"{what.call} hears of a token that has expired")

    def i8_refused(self, what: Asked) -> None:
        """A client is told that its token is no good: then it isn't."""
        token = what.token
        mine = token is not None and token in self._minted and token.user == what.user
        if token is not None and mine and self._world.now < token.expires:
            self._fail("I7 no-loss", f"a good token of {what.call} is refused")
        self._world.counts["said invalid"] += 1

    def i9_stuck_at_five(self, place: tuple[str, int], reply: Reply) -> None:
        """A round is claimed five times from processes that are gone, no more, and stuck only then
        (docs/protocol.md, rule 15)."""
        claims = self._claims.get(place, 0)
        if claims > MAX_CLAIMS:
            self._fail("I9 bounded", f"round {place[1]} of {place[0]} has outlived {claims} processes")
        if reply.verdict is Verdict.STUCK and claims != MAX_CLAIMS:
            self._fail("I9 bounded", f"{place[0]} is stuck after {claims} processes")

    def i9_paused(self, place: tuple[str, int]) -> None:
        """A handler that has ended as many processes as it may is paused, and not entered (rule 27). Of the processes
        that it ended alone, the last is not claimed from, and the one before the first counts too."""
        limit = self._world.plan.poison
        if limit and self._blamed[place] > limit - 2:
            self._fail("I9 bounded", f"round {place[1]} of {place[0]} goes on, though {limit} processes ended in it")

    def i9_alone(self, slot: Slot, slots: dict[str, Slot]) -> None:
        """A call that is entered by a claim which leaves its attempts above 1 is the only such call of its process that
        has not moved on (rule 27). One that has stood there for as long as a suspect waits does not count."""
        if not _is_suspect(slot):
            return
        self._entered_at[slot] = self._world.now
        since = self._world.now - ALONE
        others = [item for item in slots.values() if item is not slot and _is_suspect(item)]
        if any(self._entered_at.get(item, 0.0) > since for item in others):
            self._fail("I9 bounded", f"{slot.call.id} is entered beside another suspect")

    def i9_bounded(self, slot: Slot, slots: dict[str, Slot]) -> None:
        """A node has no more calls than it has room for; a call has no more writes in line than its handler has steps,
        and nobody waits in it whose request is gone."""
        plan, call = self._world.plan, slot.call
        if plan.room and len(slots) > plan.room:
            self._fail("I9 bounded", f"{slot.process.name} has {len(slots)} calls and room for {plan.room}")
        steps = sum(len(branch) for statement in parse(slot.program) for branch in statement)
        if len(call.outbox.queue) > 2 * steps + 3:
            self._fail("I9 bounded", f"{len(call.outbox.queue)} writes of {call.id} are lined up")
        gone = {item.waiter for item in (*call.waiting, *call.undecided)} - slot.process.open.keys()
        if gone:
            self._fail("I9 bounded", f"{call.id} keeps requests that are gone")

    def i9_star(self, what: Asked) -> None:
        """A request is passed on once, by the node that it came to, which tries three times (rule 19)."""
        if what.hops >= MAX_HOPS or what.tries >= MAX_TRIES:
            self._fail("I9 bounded", f"a request of {what.call} is passed on again")

    def a_lapse_is_not_a_death(
        self, record: Record, members: Mapping[NodeId, NodeRecord], evidence: Evidence | None
    ) -> None:
        """Nobody takes a call for orphaned while the process that runs it is registered, if under a newer incarnation
        (rule 5)."""
        owner = members.get(NodeId(record.owner))
        lapsed = owner is not None and (owner.boot, owner.inc != record.incarnation) == (record.head.boot, True)
        if lapsed and evidence is Evidence.GONE:
            self._fail("lapse", f"{record.owner} runs a call, has lapsed and is registered anew, and is taken for dead")


def _is_suspect(slot: Slot) -> bool:
    """Whether a call was claimed after the ends of several processes, and stands in the same round yet."""
    claimed = slot.claimed
    if claimed is None or claimed.record.attempts < 2 or slot.frame is None:
        return False
    return slot.call.phase is not Phase.PARKED and slot.call.round == claimed.record.round
