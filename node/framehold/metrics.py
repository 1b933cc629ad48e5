"""Counts what happens to the calls of one node.

The law: it only counts. What a call costs more for it is a few additions: no label is looked up on its way, and what
can be read when somebody asks is read then (`exposition`). Nothing that a client sends becomes a label (`names`).

A replay and a failover are timed from the lookup that began them; the marks go when the call is answered, or gone:

    1  looked up     a retry found no frame: `asked`
    2  claimed       the store granted the claim: `claimed`, and why it was wanted
    3  rebuilt       the frame stands where its journal ends: `rebuilt`
    4  answered      the first reply that is no refusal; a call that nobody waits for has no reply to time
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.errors import StoreUnavailable
from framehold_core.requests import Evidence, Reply, Verdict
from framehold_router.buckets import BYTES, FAILOVER, HOP, PARK
from framehold_router.tallies import Tally

from . import clock
from .names import OTHER, Names
from .recent import Recent
from .slots import Answer, Elsewhere, Ended, Parked, Slot
from .watch import Watch

ROUND = (*HOP, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
PER_CALL = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 50.0, 100.0)
ENDS = ("asked", "ended", "failed", "refused", "moved", "left")
"""What may come of a round."""
OPS = ("commit", "intent", "result", "finish", "claim", "verify", "heal", "release", "read", "renew", "register")
DUPLICATES = ("joined", "repeated", "outcome", "conflict")
STEPS = ("claim", "replay", "resume", "total")
REASONS = ("died", "released", "restarted", "evicted")
_APPEND = frozenset({"commit", "intent", "result", "heal"})
"""What is asked of the store to write entries."""
_MARKS = 4096
"""Calls at most whose replays are timed at once; beyond it the oldest mark goes."""

# Looked up once: a step asks for several, and an enum's member costs more than all the rest of what is asked.
_IDLE, _LOOKING, _REBUILDING, _RUNNING = Phase.IDLE, Phase.LOOKING, Phase.REBUILDING, Phase.RUNNING
_PARKING, _PARKED, _FINISHING, _VERIFYING = Phase.PARKING, Phase.PARKED, Phase.FINISHING, Phase.VERIFYING
_FENCED = Verdict.FENCED


class Tool:
    """What is told by the name of a tool or a prompt."""

    __slots__ = ("diverged", "ends", "parked", "per_call", "replayed", "replays", "seconds")

    def __init__(self) -> None:
        self.ends: dict[str, int] = defaultdict(int)
        self.seconds, self.per_call = Tally(ROUND), Tally(PER_CALL)
        self.parked, self.replayed = Tally(PARK), Tally(HOP)
        self.replays = self.diverged = 0


class Op:
    """What is told by what was asked of the store."""

    __slots__ = ("results", "seconds")

    def __init__(self) -> None:
        self.results: dict[str, int] = defaultdict(int)
        self.seconds = Tally(HOP)


class Mark:
    """When a call that had no frame was looked up, claimed and rebuilt, in seconds on the node's clock; `reason` is set
    where its process was gone, or had given it away."""

    __slots__ = ("asked", "claimed", "reason", "rebuilt")

    def __init__(self, asked: float) -> None:
        self.asked = asked
        self.claimed = self.rebuilt = 0.0
        self.reason = ""


class Metrics(Watch):
    """The counts of one node since its process began, and the durations of the last minute."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.tools: dict[str, Tool] = {OTHER: Tool()}
        self.ops = {op: Op() for op in OPS}
        self.fenced = self.rounds = 0
        self.duplicates = dict.fromkeys(DUPLICATES, 0)
        self.evictions = defaultdict(int, evicted=0, memory=0)
        self.failovers = dict.fromkeys(REASONS, 0)
        self.failing = {step: Tally(FAILOVER) for step in STEPS}
        self.journals, self.appends, self.lag = Tally(BYTES), Tally(HOP), Tally(HOP)
        self.resumes, self.writes, self.lags = Recent(), Recent(), Recent()
        self._marks: dict[Slot, Mark] = {}

    def errors(self) -> int:
        """How many requests the store did not answer."""
        return sum(op.results["error"] for op in self.ops.values())

    def late(self, seconds: float) -> None:
        """The event loop was late by so much."""
        self.lag.observe(seconds)
        self.lags.add(seconds)

    def _tool(self, slot: Slot, asks: bool = False) -> Tool:
        return self.tools.get(slot.tool) or self._named(slot.tool, asks)

    def _named(self, name: str, asks: bool = False) -> Tool:
        tool = self.tools.get(name)
        if tool is None:
            if not self.names.known(name, asks):
                return self.tools[OTHER]
            tool = self.tools[name] = Tool()
        return tool

    # ---- requests

    def answered(self, slot: Slot, event: ev.Start | ev.Retry, answer: Answer | None, seconds: float) -> None:
        kind = type(answer)
        tool = self._tool(slot, kind is Parked)
        if answer is None:
            tool.ends["left"] += 1
        elif kind is Elsewhere:
            tool.ends["moved"] += 1
        else:
            tool.ends[_end(slot, answer)] += 1
            tool.seconds.observe(seconds)
            self.rounds += 1
            if type(event) is ev.Retry and kind is not fx.Refusal:
                self.resumes.add(seconds)
        if self._marks:
            self._replied(slot, kind is Parked or kind is Ended)

    def turned_away(self, tool: str) -> None:
        self._named(tool).ends["refused"] += 1

    def _replied(self, slot: Slot, told: bool) -> None:
        mark = self._marks.get(slot)
        if mark is None or not (told or slot.call.phase is _IDLE or not slot.arrivals):
            return
        del self._marks[slot]
        if told and mark.reason and mark.rebuilt:
            now = clock.now()
            self.failing["resume"].observe(now - mark.rebuilt)
            self.failing["total"].observe(now - mark.asked)

    # ---- steps

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        phase = slot.call.phase
        if phase is not was:
            self._moved(slot, was, phase, event)
        fresh, replied = 0, False
        for effect in effects:
            if type(effect) is fx.Reply:
                fresh, replied = fresh + self._told(effect.answer, was, event), True
        if fresh > 1:
            self.duplicates["joined"] += fresh - 1
        if self._marks and not replied and (phase is _IDLE or (was is _REBUILDING and phase is _PARKED)):
            # Nobody waits for it any more: there will be no reply to time.
            self._marks.pop(slot, None)

    def _told(self, answer: fx.Questions | fx.Outcome | fx.Refusal, was: Phase, event: ev.Event) -> int:
        """Count a reply to a duplicate; 1 where it is the round's own reply, which those who joined get too."""
        if isinstance(answer, fx.Refusal):
            self.duplicates["conflict"] += answer.reason is fx.Reason.CONFLICT
        elif isinstance(answer, fx.Outcome):
            if not answer.sealed:
                return 1
            self.duplicates["outcome"] += 1
        elif not isinstance(event, ev.Retry):
            if was is _PARKING:
                return 1
            self.duplicates["repeated"] += 1
        else:
            # Of its own round, whose answers were not usable, a retry is no duplicate.
            self.duplicates["repeated"] += event.round < answer.round
        return 0

    def _moved(self, slot: Slot, was: Phase, phase: Phase, event: ev.Event) -> None:
        """A call is in another phase than before."""
        call, kind = slot.call, type(event)
        if phase is _PARKED and was is _PARKING:
            self.journals.observe(slot.size)
        elif phase is _RUNNING and (was is _PARKED or was is _VERIFYING):
            self._tool(slot).parked.observe(clock.now() - (call.expires - call.ttl))
        elif (was is _FINISHING and kind is ev.Acked) or (kind is ev.Finished and phase is _IDLE):
            self._tool(slot).per_call.observe(call.round + 1)
        elif isinstance(event, ev.Evict):
            self.evictions[event.cause] += 1
        elif phase is _LOOKING:
            self._mark(slot)
        elif kind is ev.Claimed:
            self._tool(slot).replays += 1
            self._claimed(self._mark(slot))
        elif kind is ev.Rebuilt:
            self._rebuilt(slot)
        elif kind is ev.Diverged:
            self._tool(slot).diverged += 1

    def _mark(self, slot: Slot) -> Mark:
        """When the call was looked up: now, unless it was before."""
        mark = self._marks.get(slot)
        if mark is None:
            if len(self._marks) >= _MARKS:
                del self._marks[next(iter(self._marks))]
            mark = self._marks[slot] = Mark(clock.now())
        return mark

    def _claimed(self, mark: Mark) -> None:
        mark.claimed = clock.now()
        if mark.reason:
            self.failing["claim"].observe(mark.claimed - mark.asked)

    def _rebuilt(self, slot: Slot) -> None:
        mark = self._marks.get(slot)
        if mark is not None:
            mark.rebuilt = clock.now()
            took = mark.rebuilt - mark.claimed
            self._tool(slot).replayed.observe(took)
            if mark.reason:
                self.failing["replay"].observe(took)

    # ---- the store

    def asked_store(self, op: str, slot: Slot | None, reply: Reply | StoreUnavailable, seconds: float) -> None:
        counts = self.ops[op]
        counts.seconds.observe(seconds)
        if isinstance(reply, StoreUnavailable):
            counts.results["error"] += 1
            return
        verdict = reply.verdict
        counts.results[verdict] += 1
        if op in _APPEND:
            self.appends.observe(seconds)
            self.writes.add(seconds)
        if verdict is _FENCED:
            self.fenced += 1
        elif op == "claim" and slot is not None and (verdict is Verdict.OK or verdict is Verdict.ALREADY):
            self._granted(slot)

    def _granted(self, slot: Slot) -> None:
        """A claim was granted. An evicted frame's is its own node's: nothing failed, and nobody waited for it to."""
        write = slot.call.flight
        reason = "died" if write is None or write.evidence is None else _WHY[write.evidence]
        if reason == "restarted" and not slot.orphaned:
            reason = "evicted"
        elif (mark := self._marks.get(slot)) is not None:
            mark.reason = reason
        self.failovers[reason] += 1


_WHY = {
    Evidence.GONE: "died",
    Evidence.NOT_HELD: "died",
    Evidence.RELEASED: "released",
    Evidence.OWNER: "restarted",
}


def _end(slot: Slot, answer: Answer) -> str:
    if isinstance(answer, Parked):
        return "asked"
    if isinstance(answer, Ended):
        return "failed" if slot.entrance.failed(answer.outcome) else "ended"
    return "refused"
