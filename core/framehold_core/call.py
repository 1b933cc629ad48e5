"""The state of one call on one node, and the few helpers that every transition uses."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from .effects import Cancel, Effect, Forget, Go, Lookup, Op, Questions, Reason, Refusal, Reply, Write
from .events import Answer, Event, Retry, Start
from .ids import CallId, Incarnation, NodeId
from .journal import GENESIS, Draft
from .requests import Answered, Fence
from .retry import Standing
from .wide import wide


class Phase(Enum):
    """Where a call is in its life on this node. The text is what the state diagram shows."""

    IDLE = "no frame here"
    LOOKING = "reading the record"
    CLAIMING = "taking the call over"
    REBUILDING = "replaying the journal"
    RUNNING = "the handler runs a round"
    PARKING = "committing the questions"
    PARKED = "waiting for answers"
    FINISHING = "committing the outcome"
    VERIFYING = "re-verifying after a lapse"
    HEALING = "healing a store that went back"
    RELEASING = "handing the call off"
    STRANDED = "the store did not answer: the frame keeps, the write waits"


@wide
class Call(NamedTuple):
    """One call as this node knows it. Immutable; a transition makes the next one.

    `round`, `epoch`, `n`, `jh` are as acknowledged by the store; `mark` is the history at which `round` was parked.
    `asks` are the asks of `round`; `answered` is what it was answered with, `carried` whether a write already took
    that along. `notes` precede the next write. `flight` is the write that the store has not answered, `stalled` that
    it must be sent again. `waiting` are the requests that get the running round's reply, `held` those to be decided
    again when the store has answered. `intents` are the keys of `once` whose results are not stored yet; of these the
    `withheld` stand recorded, but may not run before the node's window is open for this frame."""

    id: CallId
    owner: NodeId
    inc: Incarnation
    reentrant: bool
    ttl: float
    phase: Phase = Phase.IDLE
    epoch: int = 1
    round: int = 0
    n: int = 0
    jh: str = GENESIS
    mark: str = GENESIS
    asks: tuple[Draft, ...] = ()
    answered: Answered | None = None
    carried: bool = False
    past: tuple[Answered, ...] = ()
    gathered: tuple[Answer, ...] = ()
    notes: tuple[Draft, ...] = ()
    flight: Write | None = None
    stalled: bool = False
    queue: tuple[Write, ...] = ()
    waiting: tuple[Start | Retry, ...] = ()
    held: tuple[Retry, ...] = ()
    ended: tuple[object, str] | None = None
    intents: frozenset[str] = frozenset()
    withheld: tuple[str, ...] = ()
    expires: float = 0.0
    tries: int = 0
    leaving: bool = False


class Move(NamedTuple):
    """What a transition makes of a call. `again` are events to be stepped right after, against the new state."""

    call: Call
    effects: tuple[Effect, ...] = ()
    again: tuple[Event, ...] = ()


HOME = {
    Op.PARK: Phase.PARKING,
    Op.FINISH: Phase.FINISHING,
    Op.HEAL: Phase.HEALING,
}
"""The phase in which the answer to a write is awaited, where the write alone decides it."""


def home(call: Call, flight: Write) -> Phase:
    """The phase of a frame that goes on with `flight`."""
    if flight.op in HOME:
        return HOME[flight.op]
    aside = stance(call)
    return Phase.VERIFYING if flight.op is Op.VERIFY and aside is Phase.PARKED else aside


def stance(call: Call) -> Phase:
    """The phase of a frame but for what its effects write. A commit that is lined up decides it: the set of asks is
    frozen, or the handler has ended, all the same. Else a round runs until it is parked, whether or not anybody still
    waits for it."""
    runs = Phase.PARKED if call.round and call.answered is None else Phase.RUNNING
    return next((HOME[write.op] for write in call.queue if write.op in (Op.PARK, Op.FINISH)), runs)


def shielded(call: Call) -> bool:
    """Whether an effect runs, or may be let go by an answer that is on its way: no leaving and no limit takes the frame
    away meanwhile (rule 8)."""
    return len(call.intents) > len(call.withheld)


def at_rest(call: Call) -> bool:
    """Whether a parked frame may be dropped or handed off: its journal can rebuild it, and neither an effect nor a
    write of it is under way (rule 8)."""
    return call.reentrant and not call.intents and call.flight is None


def fence(call: Call) -> Fence:
    """The claim that each write of this frame presents."""
    return Fence(call.owner, call.inc, call.epoch, call.round, call.n)


def standing(call: Call) -> Standing:
    """How far the live frame has come."""
    answered = call.past if call.answered is None else (*call.past, call.answered)
    return Standing(call.epoch, call.round, call.mark, tuple(ask.key for ask in call.asks), answered)


def send(call: Call, write: Write) -> tuple[Call, tuple[Effect, ...]]:
    """Send a write, or line it up behind the one in flight: positions are given in order. A running frame gets that one
    going again, where the store left it unanswered."""
    if call.flight is not None:
        call = call._replace(queue=(*call.queue, write))
        return (call, ()) if call.phase is Phase.STRANDED else resend(call)
    return call._replace(flight=write, stalled=False), (write,)


def verify(call: Call, inc: Incarnation) -> tuple[Call, tuple[Effect, ...]]:
    """Have this frame verified under `inc`, behind what is in line; while a journal is replayed nothing is sent."""
    lined_up = (call.flight, *call.queue)
    if call.inc == inc or any(write is not None and (write.op, write.inc) == (Op.VERIFY, inc) for write in lined_up):
        return call, ()
    write = Write(Op.VERIFY, inc=inc)
    if call.phase is Phase.REBUILDING:
        return call._replace(queue=(*call.queue, write)), ()
    return send(call, write)


def let_go(call: Call, is_open: bool) -> tuple[Call, tuple[Effect, ...]]:
    """The effects that waited for an open window run."""
    if not is_open:
        return call, ()
    return call._replace(withheld=()), tuple(Go(key) for key in call.withheld)


def landed(call: Call) -> tuple[Call, tuple[Effect, ...]]:
    """The write in flight was answered: send the next one."""
    if not call.queue:
        return call._replace(flight=None, stalled=False), ()
    return call._replace(flight=call.queue[0], stalled=False, queue=call.queue[1:]), (call.queue[0],)


def resend(call: Call) -> tuple[Call, tuple[Effect, ...]]:
    """Send a stalled write again, as it was."""
    if not call.stalled or call.flight is None:
        return call, ()
    return call._replace(stalled=False), (call.flight,)


def carry(call: Call) -> Answered | None:
    """What the next write takes along of this round's answers: they go ahead of everything it does (rule 2)."""
    return None if call.carried else call.answered


def questions(call: Call, now: float) -> Questions:
    """The current round's questions as a reply."""
    return Questions(call.round, call.epoch, call.n, call.mark, call.expires - now)


def refuse(events: tuple[Start | Retry, ...], reason: Reason, call: Call, detail: str = "") -> tuple[Effect, ...]:
    """The same refusal for each of these requests."""
    return tuple(Reply(event.waiter, Refusal(reason, call.round, detail)) for event in events)


def dropped(call: Call, cause: str) -> tuple[Call, tuple[Effect, ...]]:
    """The frame goes: nothing of it is left here but the requests that still want an answer."""
    empty = Call(call.id, call.owner, call.inc, call.reentrant, call.ttl, round=call.round)
    return empty._replace(held=call.held), (Cancel(cause),)


TAKEN = (
    "its id names another call already, so its first round could not be kept; its handler was cancelled where it "
    "stood; start a new call if that is safe"
)


def superseded(call: Call, cause: str, found: tuple[Retry, ...] = ()) -> Move:
    """Another owns the call: the frame dies, and all who waited are decided again from the record. Round 1 has no token
    to decide by: it is refused."""
    starts = tuple(item for item in call.waiting if not isinstance(item, Retry))
    retries = (*found, *call.held, *(item for item in call.waiting if isinstance(item, Retry)))
    replies = refuse(starts, Reason.UNAVAILABLE, call, TAKEN)
    call, effects = dropped(call, cause)
    if not retries:
        return Move(call._replace(held=()), (*replies, *effects, Forget()))
    return Move(call._replace(phase=Phase.LOOKING, held=retries), (*replies, *effects, Lookup()))


def gone(call: Call, cause: str) -> Move:
    """The frame goes and nobody waits."""
    empty, effects = dropped(call, cause)
    return Move(empty._replace(held=()), (*effects, Forget()))
