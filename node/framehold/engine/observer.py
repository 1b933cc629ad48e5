"""Observers of a node's calls: metrics, the event log, traces.

The law: an observer only looks. No call depends on it: what it raises is logged, and the call goes on. Each kind of
event goes only to the observers that override its method.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Generic, ParamSpec

from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.errors import StoreUnavailable
from framehold_core.requests import Reply, Verdict

from .answer_parsing import MalformedAnswer
from .replies import Answer
from .slot import Arrival, Slot
from .takeovers import Change, Takeover

logger = logging.getLogger(__name__)
RequestEnd = Answer | MalformedAnswer | None
"""What became of a request that had a slot: its reply, why its answers were refused, or None if its client left."""
ORDINARY = frozenset({(Phase.IDLE, Phase.RUNNING), (Phase.RUNNING, Phase.PARKING), (Phase.RUNNING, Phase.FINISHING)})
"""Steps in which nobody hears anything: a call begins, or hands its questions or its outcome to the store."""
ROUND = {(Phase.PARKED, Phase.RUNNING): 1, (Phase.PARKING, Phase.PARKED): 1, (Phase.FINISHING, Phase.IDLE): 2}
"""Steps of a round that one request waits for, and how many effects they have then."""


class Observer:
    """Override the methods whose events you want. Each runs within the step that it reports, so it must be quick."""

    def stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """A call that was in phase `was` has taken a step; its effects are performed. Steps of `ORDINARY` are not
        told, and those of `ROUND` by `round_stepped`, if one request waits for the round and its record was not looked
        up: what such a round did is told by `answered`."""

    def round_stepped(self, slot: Slot, was: Phase, event: ev.Event, effects: Sequence[fx.Effect]) -> None:
        """A call has taken a step of `ROUND`; see `stepped`."""

    def answered(self, slot: Slot, arrival: Arrival, answer: RequestEnd, seconds: float) -> None:
        """A request has its reply, `seconds` after it came; `arrival` says what its round did. `answer` is None if its
        client left."""

    def call_refused(self, tool: str) -> None:
        """A request was refused before it had a slot, or for its answers: because of a limit, because the store
        can't be written, or because an answer is malformed."""

    def dropped(self, slot: Slot, cause: str) -> None:
        """A frame was cancelled, evicted or let go."""

    def store_replied(self, op: str, slot: Slot | None, reply: Reply | StoreUnavailable, seconds: float) -> None:
        """The store has answered one request, or did not answer in time; `seconds` is the time that it took.

        `op` is the operation: commit, intent, result, finish, claim, verify, heal, release or read of the call in
        `slot`; or register or renew of the node's own lease, with `slot` None. Verdicts for the lease are ok, missing
        (it lapsed) and conflict (another process has the name)."""

    def takeover(self, slot: Slot, takeover: Takeover, change: Change) -> None:
        """A takeover has changed: the claim was granted, the frame was rebuilt, or it has ended (`takeovers`)."""

    def renewed(self, ok: bool) -> None:
        """A heartbeat has ended. `ok` says whether the node lease was registered or renewed."""

    def happened(self, kind: str, text: str, slot: Slot | None = None, lost: int = 0) -> None:
        """An event for operators. `kind` is one of `framehold_fleet.models.events.EventKind`, `text` says what
        happened. `lost` is how many calls end by it with this process."""


EventT = ParamSpec("EventT")


class Signal(Generic[EventT]):
    """One kind of event, and the functions that are called with it."""

    __slots__ = ("listeners",)

    def __init__(self) -> None:
        self.listeners: tuple[Callable[EventT, None], ...] = ()

    def connect(self, listener: Callable[EventT, None]) -> None:
        """Call `listener` with each event from now on, after those that were connected before."""
        self.listeners += (listener,)

    def __call__(self, *args: EventT.args, **kwargs: EventT.kwargs) -> None:
        for listener in self.listeners:
            try:
                listener(*args, **kwargs)
            except Exception:
                logger.exception("a bug in an observer of calls; the call that it observed goes on")


class Observers:
    """All observers of one node. Calling an attribute reports an event to those who override that method of
    `Observer`."""

    def __init__(self) -> None:
        self.stepped = Signal[[Slot, Phase, ev.Event, Sequence[fx.Effect]]]()
        self.round_stepped = Signal[[Slot, Phase, ev.Event, Sequence[fx.Effect]]]()
        self.answered = Signal[[Slot, Arrival, RequestEnd, float]]()
        self.call_refused = Signal[[str]]()
        self.dropped = Signal[[Slot, str]]()
        self.store_replied = Signal[[str, Slot | None, Reply | StoreUnavailable, float]]()
        self.takeover = Signal[[Slot, Takeover, Change]]()
        self.renewed = Signal[[bool]]()
        self.happened = Signal[...]()

    def add(self, observer: Observer) -> None:
        """Report to `observer` from now on."""
        for name, signal in vars(self).items():
            if getattr(type(observer), name) is not getattr(Observer, name):
                signal.connect(getattr(observer, name))

    def beat(self, op: str, reply: Reply | StoreUnavailable, seconds: float) -> None:
        """Report a heartbeat: `op` is `register` or `renew`, `seconds` what the store took."""
        self.store_replied(op, None, reply, seconds)
        self.renewed(isinstance(reply, Reply) and reply.verdict is Verdict.OK)
