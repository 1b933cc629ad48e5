"""The state of one call on one node, and the few helpers that every transition uses."""

from __future__ import annotations

from enum import Enum

from .effects import Cancel, Effect, Forget, Go, Lookup, Op, Questions, Reason, Recorded, Refusal, Respond, Write
from .ending import LOST, Ending, How
from .events import Answer, Event, Finished, Retry, Start
from .ids import CallId, Incarnation, NodeId
from .journal import GENESIS, Draft
from .outbox import EMPTY, Outbox
from .requests import Answered, Done, Fence
from .retry import Progress
from .value import Value, replace


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

    # Each step looks a phase up. A phase is one object, and `Enum.__hash__` is a Python function.
    __hash__ = object.__hash__


class Call(Value):
    """One call as this node knows it. Immutable; a transition makes the next one."""

    # ---- what the call is
    id: CallId
    owner: NodeId
    """This node: the owner that each write of the frame names."""
    incarnation: Incarnation
    """The incarnation of this node's lease under which the frame runs."""
    reentrant: bool
    """Whether the handler may be entered again."""
    ttl: float
    """For how many seconds a token of the call is valid."""

    # ---- where it stands: the last five as the store acknowledged them
    phase: Phase = Phase.IDLE
    epoch: int = 1
    round: int = 0
    """The round whose questions were asked last; 0 before the first questions."""
    position: int = 0
    history: str = GENESIS
    round_history: str = GENESIS
    """The history at which `round` was parked: its tokens name it."""
    written: float = 0.0
    """When the last write that is acknowledged was first sent, in seconds on the node's clock."""

    # ---- questions and answers
    asks: tuple[Draft, ...] = ()
    """The questions of `round`."""
    answered: Answered | None = None
    """The digest of the answers that `round` got; None while it waits for them."""
    answers_sent: bool = False
    """Whether a write that carries `answered` is acknowledged, in flight or in line."""
    answered_before: tuple[Answered, ...] = ()
    """The digests of the answers that earlier rounds got."""
    undelivered: tuple[Answer, ...] = ()
    """Answers taken that the handler has not got, since others of its questions are still open
    (docs/protocol.md, rule 10)."""
    notes: tuple[Draft, ...] = ()
    """Entries that the next write is to take along."""
    owed: tuple[Done, ...] = ()
    """The effects whose results are among `notes`: the handler has heard them, and no write carries them yet
    (docs/protocol.md, rule 13)."""

    # ---- what is under way
    outbox: Outbox = EMPTY
    waiting: tuple[Start | Retry, ...] = ()
    """The requests that get the reply of the running round."""
    undecided: tuple[Retry, ...] = ()
    """The requests that are decided when the store has answered."""
    ended: Finished | None = None
    """How the handler ended, where the outcome is not committed yet."""
    intents: frozenset[str] = frozenset()
    """The effects of `once` that were begun and whose result is not stored, by the digest of their key."""
    unready: tuple[str, ...] = ()
    """Those of `intents` that need no intent, and wait until all that the handler had learned is stored."""
    withheld: tuple[str, ...] = ()
    """Those of `intents` that may run but for the node's window, and wait for it to open (decision 013)."""
    expires: float = 0.0
    """When the last token of `round` expires, in seconds on the node's clock."""
    tries: int = 0
    """How often in a row a claim or a heal lost its race."""
    abandoned: bool = False
    """Whether the frame is to be dropped as soon as no effect of it runs: nobody waits for its round any more."""


class Move(Value):
    """What a transition makes of a call. `follow_ups` are events to be stepped right after, against the new state."""

    call: Call
    effects: tuple[Effect, ...] = ()
    follow_ups: tuple[Event, ...] = ()


AWAITING = {
    Op.PARK: Phase.PARKING,
    Op.FINISH: Phase.FINISHING,
    Op.HEAL: Phase.HEALING,
    Op.RELEASE: Phase.RELEASING,
}
"""The phase in which the answer to a write is awaited, for the writes whose kind alone decides it."""


def frame_phase(call: Call) -> Phase:
    """The phase of a frame that goes on with the write in flight."""
    write = call.outbox.in_flight
    if write is not None and write.op in AWAITING:
        return AWAITING[write.op]
    phase = handler_phase(call)
    return Phase.VERIFYING if write is not None and write.op is Op.VERIFY and phase is Phase.PARKED else phase


def handler_phase(call: Call) -> Phase:
    """The phase of a frame by what its handler does, whatever write is in flight.

    A commit of questions or of an outcome in the queue decides: the handler waits, or has ended. Otherwise the round
    runs until it is parked, whether or not a request still waits for it."""
    for write in call.outbox.queue:
        if write.op is Op.PARK or write.op is Op.FINISH:
            return AWAITING[write.op]
    return Phase.PARKED if call.round and call.answered is None else Phase.RUNNING


def effect_under_way(call: Call) -> bool:
    """Whether an effect runs, or may be started by an answer of the store that is on its way, or a result is not stored
    yet. Until then nobody who leaves and no limit takes the frame away (rule 8)."""
    return len(call.intents) > len(call.withheld)


def may_be_dropped(call: Call) -> bool:
    """Whether a parked frame may be evicted or handed off: its journal can rebuild it, it owes no result, and neither
    an effect nor a write of it is under way (rule 8)."""
    return call.reentrant and not call.intents and call.outbox.in_flight is None


def fence_of(call: Call) -> Fence:
    """The fence that each write of this frame presents."""
    return Fence(call.owner, call.incarnation, call.epoch, call.round, call.position)


def progress(call: Call) -> Progress:
    """How far the live frame has come."""
    answered = call.answered_before if call.answered is None else (*call.answered_before, call.answered)
    return Progress(call.epoch, call.round, call.round_history, tuple([ask.key for ask in call.asks]), answered)


def send(call: Call, write: Write) -> tuple[Outbox, tuple[Effect, ...]]:
    """The outbox with `write` sent or lined up. A stranded frame sends nothing by itself: a retry that joins it does,
    or the store's return."""
    if call.phase is Phase.STRANDED:
        return call.outbox.line_up(write), ()
    return call.outbox.send(write)


def flush(call: Call) -> tuple[Call, tuple[Effect, ...]]:
    """Write what the handler has learned and no write carries, by a write of its own."""
    write = Write(Op.RESULT, call.notes, answered=unsent_answers(call), results=call.owed)
    outbox, effects = send(call, write)
    return replace(call, notes=(), owed=(), answers_sent=True, outbox=outbox), effects


def recorded(call: Call, write: Write) -> tuple[Call, tuple[Effect, ...]]:
    """`write` was acknowledged: the results that it carried are durable."""
    if not write.results:
        return call, ()
    keys = tuple(done.key for done in write.results)
    return replace(call, intents=call.intents.difference(keys)), (Recorded(keys),)


def send_verify(call: Call, incarnation: Incarnation) -> tuple[Call, tuple[Effect, ...]]:
    """Have this frame verified under `incarnation`, behind the writes in line. While a journal is replayed the write is
    lined up and not sent. Nothing is done where the frame runs under that incarnation, or such a write is in line."""
    outbox = call.outbox
    in_line = (outbox.in_flight, *outbox.queue)
    if call.incarnation == incarnation or any(
        write is not None and write.op is Op.VERIFY and write.incarnation == incarnation for write in in_line
    ):
        return call, ()
    write = Write(Op.VERIFY, incarnation=incarnation)
    if call.phase is Phase.REBUILDING:
        return replace(call, outbox=outbox.line_up(write)), ()
    outbox, effects = send(call, write)
    return replace(call, outbox=outbox), effects


def run_withheld(call: Call, is_open: bool) -> tuple[Call, tuple[Effect, ...]]:
    """Start the effects that waited for the node's window, if it is open now."""
    if not is_open or not call.withheld:
        return call, ()
    return replace(call, withheld=()), tuple(Go(key) for key in call.withheld)


def unsent_answers(call: Call) -> Answered | None:
    """The digest of this round's answers, for the first write after they came: they go ahead of everything that the
    write says (rule 2). None for each later write."""
    return None if call.answers_sent else call.answered


def questions(call: Call, now: float) -> Questions:
    """The current round's questions as a reply."""
    return Questions(call.round, call.epoch, call.position, call.round_history, call.expires - now)


def refuse_all(requests: tuple[Start | Retry, ...], reason: Reason, call: Call, detail: str = "") -> tuple[Effect, ...]:
    """One refusal for each of `requests`."""
    return tuple(Respond(request.waiter, Refusal(reason, call.round, detail)) for request in requests)


def without_frame(call: Call) -> Call:
    """What is left of a call once its frame is gone: its identity, and the round that refusals name."""
    return Call(call.id, call.owner, call.incarnation, call.reentrant, call.ttl, round=call.round)


def drop_frame(call: Call, cause: str) -> tuple[Call, tuple[Effect, ...]]:
    """Cancel the frame. Of its state only the undecided requests are kept."""
    return replace(without_frame(call), undecided=call.undecided), (Cancel(cause),)


def drop_and_forget(call: Call, cause: str, ending: Ending | None = None) -> Move:
    """Cancel the frame of a call that no request waits for. `ending` is how the call ended by it, if it did."""
    return Move(without_frame(call), (Cancel(cause), forget(call, ending)))


def forget(call: Call, ending: Ending | None) -> Forget:
    """The node forgets a call that lost its frame. What has asked, and has neither ended nor moved, leaves an open
    record."""
    stays_open = call.round > 0 and (ending is None or ending.how in (How.LOST, How.DIVERGED))
    return Forget(ending, call.expires if stays_open else 0.0)


TAKEN = (
    "its id names another call already, so its first round could not be kept; its handler was cancelled where it "
    "stood; start a new call if that is safe"
)


def lose_ownership(call: Call, cause: str, found: tuple[Retry, ...] = ()) -> Move:
    """Another owns the call: cancel the frame, and have each retry (`found` first) decided again from the record. A
    request of round 1 has no token to be decided by: it is refused."""
    starts = tuple(item for item in call.waiting if not isinstance(item, Retry))
    retries = (*found, *call.undecided, *(item for item in call.waiting if isinstance(item, Retry)))
    replies = refuse_all(starts, Reason.UNAVAILABLE, call, TAKEN)
    if not retries:
        return Move(without_frame(call), (*replies, Cancel(cause), Forget(LOST if starts else None)))
    looking = replace(without_frame(call), phase=Phase.LOOKING, undecided=retries)
    return Move(looking, (*replies, Cancel(cause), Lookup()))
