"""Counts what happens to the calls of one node.

The law: it only counts. It adds a few additions to each call: no label is looked up during a call, and values that can
be read when metrics are requested are read then (`prometheus`). Nothing that a client sends becomes a label
(`tool_labels`).

A failover is timed from the arrival of the retry: the retry may wait for the lease of the dead node, and look the call
up several times. Without a waiting request there is no reply to time.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.ending import ANSWERS, COMPLETED, How
from framehold_core.errors import StoreUnavailable
from framehold_core.requests import Reply, Verdict
from framehold_fleet.telemetry.bounds import BYTES, FAILOVER, HOP, PARK, ROUND
from framehold_fleet.telemetry.histogram import Tally

from ..engine.answer_parsing import MalformedAnswer
from ..engine.observer import Observer, RequestEnd
from ..engine.replies import Answer, Elsewhere, Ended, Parked
from ..engine.slot import Arrival, Slot
from ..engine.takeovers import CLAIMED, OF_OTHERS, REBUILT, Change, Takeover
from .tool_labels import OTHER, ToolLabels
from .window import ROUND_MINUTES, Rate, RecentDurations, RecentEnds

PER_CALL = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 50.0, 100.0)
ENDS = ("asked", "ended", "failed", "refused", "moved", "left")
"""The outcomes of a round."""
OPS = ("commit", "intent", "result", "finish", "claim", "verify", "heal", "release", "read", "renew", "register")
DUPLICATES = ("joined", "repeated", "outcome", "conflict")
STEPS = ("claim", "replay", "resume", "total")
REASONS = (*OF_OTHERS, "evicted")
_APPEND = frozenset({"commit", "intent", "result", "heal"})
"""The operations that write journal entries."""

# Looked up once: a step compares with several of them, and an attribute of an enum is slow.
_IDLE, _LOOKING, _REBUILDING, _RUNNING = Phase.IDLE, Phase.LOOKING, Phase.REBUILDING, Phase.RUNNING
_PARKING, _PARKED, _FINISHING, _VERIFYING = Phase.PARKING, Phase.PARKED, Phase.FINISHING, Phase.VERIFYING
_FENCED, _OK = Verdict.FENCED, Verdict.OK


class Tool:
    """The counts of one tool or prompt."""

    __slots__ = (
        "calls",
        "diverged",
        "ends",
        "kept_code",
        "parked",
        "per_call",
        "replayed",
        "replays",
        "rounds",
        "seconds",
    )

    def __init__(self) -> None:
        # From 0 on: `increase` of Prometheus does not see the first sample of a series.
        self.ends = dict.fromkeys(ENDS, 0)
        self.calls, self.rounds = RecentEnds(), RecentEnds(ROUND_MINUTES)
        self.seconds, self.per_call = Tally(ROUND), Tally(PER_CALL)
        self.parked, self.replayed = Tally(PARK), Tally(HOP)
        self.replays = self.diverged = self.kept_code = 0


class OpCounts:
    """The counts of one operation of the store."""

    __slots__ = ("results", "seconds")

    def __init__(self) -> None:
        self.results: dict[str, int] = defaultdict(int, ok=0, error=0)
        self.seconds = Tally(HOP)


class CallMetrics(Observer):
    """The counts of one node since its process began, and the durations of the last minute."""

    def __init__(self, labels: ToolLabels) -> None:
        self.labels = labels
        self.tools: dict[str, Tool] = {OTHER: Tool()}
        self.ops = {op: OpCounts() for op in OPS}
        self.ops["claim"].results |= {"lost": 0, "stuck": 0}
        self.fenced = self.rounds = 0
        self.duplicates = dict.fromkeys(DUPLICATES, 0)
        self.evictions = defaultdict(int, evicted=0, memory=0)
        self.failovers = dict.fromkeys(REASONS, 0)
        self.failing = {step: Tally(FAILOVER) for step in STEPS}
        self.journals, self.appends, self.lag = Tally(BYTES), Tally(HOP), Tally(HOP)
        self.resumes, self.writes, self.lags = RecentDurations(), RecentDurations(), RecentDurations()
        self.processor = Rate(time.thread_time)
        self.answered_rounds = Rate(lambda: self.rounds)

    def busy(self) -> float | None:
        """The part of the last minute, from 0 to 1, in which the thread of the event loop used a processor; None if it
        is not known yet. A handler that blocks without using one (`time.sleep`) counts as idle: it shows in the loop's
        lag."""
        used = self.processor.per_second()
        return None if used is None else min(1.0, used)

    def errors(self) -> int:
        """How many requests the store did not answer."""
        return sum(op.results["error"] for op in self.ops.values())

    def named_tools(self) -> dict[str, Tool]:
        """The counts of each tool that the server names, also of those that nobody has called, and of `other`."""
        for name in self.labels:
            self._labelled(name)
        return self.tools

    def late(self, seconds: float) -> None:
        """The event loop was late by so many seconds."""
        self.lag.observe(seconds)
        self.lags.add(seconds)
        self.processor.read()
        self.answered_rounds.read()

    def _tool(self, slot: Slot, asks: bool = False) -> Tool:
        name = slot.handler.tool
        return self.tools.get(name) or self._labelled(name, asks)

    def _labelled(self, name: str, asks: bool = False) -> Tool:
        tool = self.tools.get(name)
        if tool is None:
            if not self.labels.known(name, asks):
                return self.tools[OTHER]
            tool = self.tools[name] = Tool()
        return tool

    # ---- requests

    def answered(self, slot: Slot, arrival: Arrival, answer: RequestEnd, seconds: float) -> None:
        kind = type(answer)
        tool = self.tools.get(slot.handler.tool) or self._labelled(slot.handler.tool, kind is Parked)
        if kind is not Elsewhere:
            tool.rounds.add(answer is None)
        if answer is None:
            tool.ends["left"] += 1
        elif kind is Elsewhere:
            tool.ends["moved"] += 1
        elif not isinstance(answer, MalformedAnswer):  # `call_refused` counts that.
            end = "asked" if kind is Parked else _end(slot, answer)
            tool.ends[end] += 1
            tool.seconds.observe(seconds)
            self.rounds += 1
            if type(arrival.event) is ev.Retry and kind is not fx.Refusal:
                self.resumes.add(seconds)
        if arrival.parked is not None:
            tool.parked.observe(arrival.parked)
        if arrival.written is not None:
            self._applied(*arrival.written)
        if arrival.size is not None:
            self.journals.observe(arrival.size)
        if arrival.rounds is not None:
            tool.per_call.observe(arrival.rounds)
        if arrival.ending is not None and arrival.ending.how in ANSWERS:
            tool.calls.add(arrival.ending.how is not How.COMPLETED)

    def call_refused(self, tool: str) -> None:
        self._labelled(tool).ends["refused"] += 1

    # ---- steps

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        phase = slot.call.phase
        if phase is not was:
            self._phase_changed(slot, was, phase, event)
        fresh = 0
        for effect in effects:
            if type(effect) is fx.Respond:
                fresh += self._count_reply(effect.response, was, event)
            elif type(effect) is fx.Forget and effect.ending is not None and effect.ending.how in ANSWERS:
                self._tool(slot).calls.add(effect.ending.how is not How.COMPLETED)
        if fresh > 1:
            self.duplicates["joined"] += fresh - 1

    def _count_reply(self, answer: fx.Questions | fx.Outcome | fx.Refusal, was: Phase, event: ev.Event) -> int:
        """Count a reply to a duplicate request. Returns 1 for the round's own reply, which requests that joined the
        round get, too; else 0."""
        if isinstance(answer, fx.Refusal):
            self.duplicates["conflict"] += answer.reason is fx.Reason.CONFLICT
        elif isinstance(answer, fx.Outcome):
            if answer.sealed is None:
                return 1
            self.duplicates["outcome"] += 1
        elif not isinstance(event, ev.Retry):
            if was is _PARKING:
                return 1
            self.duplicates["repeated"] += 1
        else:
            # A retry of the present round whose answers were not usable is no duplicate.
            self.duplicates["repeated"] += event.round < answer.round
        return 0

    def _phase_changed(self, slot: Slot, was: Phase, phase: Phase, event: ev.Event) -> None:
        """A call has changed its phase from `was` to `phase`."""
        call, kind = slot.call, type(event)
        if phase is _PARKED and was is _PARKING:
            self.journals.observe(slot.size)
        elif phase is _RUNNING and (was is _PARKED or was is _VERIFYING):
            self._tool(slot).parked.observe(slot.clock.now() - (call.expires - call.ttl))
        elif (was is _FINISHING and kind is ev.Acked) or (kind is ev.Finished and phase is _IDLE):
            self._tool(slot).per_call.observe(call.round + 1)
        elif isinstance(event, ev.Evict):
            self.evictions[event.cause] += 1
        elif kind is ev.Diverged:
            self._tool(slot).diverged += 1

    # ---- takeovers

    def takeover(self, slot: Slot, takeover: Takeover, change: Change) -> None:
        tool, is_failover = self._tool(slot), takeover.reason in OF_OTHERS
        if change == CLAIMED:
            tool.replays += 1
            tool.kept_code += slot.handler.enters_kept
            if takeover.reason in self.failovers:
                self.failovers[takeover.reason] += 1
            self._took("claim", takeover.asked, takeover.claimed, is_failover)
        elif change == REBUILT:
            assert takeover.rebuilt is not None and takeover.claimed is not None
            tool.replayed.observe(takeover.rebuilt - takeover.claimed)
            self._took("replay", takeover.claimed, takeover.rebuilt, is_failover)
        else:
            self._took("resume", takeover.rebuilt, takeover.resumed, is_failover)
            self._took("total", takeover.asked, takeover.resumed, is_failover)

    def _took(self, step: str, since: float | None, until: float | None, is_failover: bool) -> None:
        if is_failover and since is not None and until is not None:
            self.failing[step].observe(until - since)

    # ---- the store

    def store_replied(self, op: str, slot: Slot | None, reply: Reply | StoreUnavailable, seconds: float) -> None:
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

    def _applied(self, op: str, seconds: float) -> None:
        """The store has applied the write of a round."""
        counts = self.ops[op]
        counts.seconds.observe(seconds)
        counts.results[_OK] += 1
        if op in _APPEND:
            self.appends.observe(seconds)
            self.writes.add(seconds)


def _end(slot: Slot, answer: Answer) -> str:
    if isinstance(answer, Parked):
        return "asked"
    if isinstance(answer, Ended):
        return "ended" if slot.handler.ending(answer.outcome) == COMPLETED else "failed"
    return "refused"
