"""THE state machine: one row for each thing that may happen in each phase, and `step`, which applies it.

Invariants, as far as one node can keep them (PROTOCOL section 5 has their exact words):

I1 single-owner   a frame is entered only by `Start` in an empty call or by a granted claim, which raises the epoch
I2 monotone       epoch, round and position change only by what the store acknowledged
I3 output-gate    `Questions` and `Outcome` leave in the step of the acknowledgement that makes them true, or of a
                  record that was read; the one exception is the row (FINISHING, StoreDown), which says `Ungated`
I4 one-resume     `Deliver` leaves in the step that moves PARKED to RUNNING, and only there
I5 once           `Go` leaves only after its intent's acknowledgement, inside the window that its frame runs under
I6 no-hidden-re-entry   `Run` with entries leaves only after `Claimed`, which the store refuses for unmarked handlers

A missing row is a bug of the shell that drives the machine: `step` raises, it does not guess. To find where a retry is
decided, see `retry.ROWS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import recovery, rounds, takeover
from .call import Call, Move, Phase
from .effects import Effect
from .errors import ProtocolError
from .events import (
    Acked,
    Asked,
    Claimed,
    Diverged,
    Drain,
    Event,
    Evict,
    Expired,
    Finished,
    Found,
    Intended,
    Left,
    Noted,
    Nudged,
    Overran,
    Rebuilt,
    Refused,
    Renewed,
    Resulted,
    Retry,
    Start,
    Stop,
    StoreDown,
    Unreadable,
)

IDLE, LOOKING, CLAIMING, REBUILDING = Phase.IDLE, Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING
RUNNING, PARKING, PARKED, FINISHING = Phase.RUNNING, Phase.PARKING, Phase.PARKED, Phase.FINISHING
VERIFYING, HEALING, RELEASING, STRANDED = Phase.VERIFYING, Phase.HEALING, Phase.RELEASING, Phase.STRANDED


class Row(NamedTuple):
    """What follows from an event in a phase, and the phases that it may lead to."""

    move: Callable[[Call, Any, float], Move]
    to: tuple[Phase, ...]


def stay(call: Call, event: Event, now: float) -> Move:
    """Nothing follows: the event came too late, or too early, to matter."""
    return Move(call)


FENCED = (LOOKING, IDLE)
"""Where a refused frame leads: to the record where somebody waits, else to nothing."""

TABLE: dict[tuple[Phase, type[Any]], Row] = {
    (IDLE, Start): Row(rounds.start, (RUNNING,)),
    (IDLE, Retry): Row(takeover.look, (LOOKING,)),
    # ---- no frame: ask the store
    (LOOKING, Retry): Row(takeover.hold, (LOOKING,)),
    (LOOKING, Found): Row(takeover.found, (CLAIMING, IDLE)),
    (LOOKING, StoreDown): Row(takeover.unanswered, (IDLE,)),
    (LOOKING, Unreadable): Row(takeover.unreadable, (IDLE,)),
    (CLAIMING, Retry): Row(takeover.hold, (CLAIMING,)),
    (CLAIMING, Claimed): Row(takeover.claimed, (REBUILDING,)),
    (CLAIMING, Refused): Row(takeover.unclaimed, (LOOKING, IDLE)),
    (CLAIMING, StoreDown): Row(takeover.unanswered, (IDLE,)),
    (CLAIMING, Unreadable): Row(takeover.unreadable, (IDLE,)),
    (REBUILDING, Retry): Row(takeover.hold, (REBUILDING,)),
    (REBUILDING, Rebuilt): Row(takeover.rebuilt, (PARKED, RUNNING, VERIFYING)),
    (REBUILDING, Diverged): Row(takeover.diverged, (IDLE,)),
    (REBUILDING, Unreadable): Row(takeover.unreadable, (IDLE,)),
    # ---- a round runs
    (RUNNING, Retry): Row(rounds.retried, (RUNNING, LOOKING)),
    (RUNNING, Asked): Row(rounds.asked, (PARKING,)),
    (RUNNING, Finished): Row(rounds.finished, (FINISHING, IDLE)),
    (RUNNING, Overran): Row(rounds.overran, (RUNNING, IDLE)),
    (RUNNING, Stop): Row(rounds.stopped, (RUNNING, FINISHING, IDLE)),
    (RUNNING, Acked): Row(rounds.acked, (RUNNING, IDLE)),
    (RUNNING, Refused): Row(recovery.refused, (RUNNING, HEALING, *FENCED)),
    (RUNNING, StoreDown): Row(recovery.stranded, (RUNNING, STRANDED, IDLE)),
    (RUNNING, Nudged): Row(recovery.nudged, (RUNNING,)),
    (PARKING, Retry): Row(rounds.retried, (PARKING, LOOKING)),
    (PARKING, Finished): Row(rounds.ended_early, (PARKING,)),
    (PARKING, Acked): Row(rounds.acked, (PARKED, PARKING, IDLE)),
    (PARKING, Refused): Row(recovery.refused, (HEALING, PARKING, *FENCED)),
    (PARKING, StoreDown): Row(recovery.stranded, (STRANDED, IDLE)),
    (FINISHING, Retry): Row(rounds.retried, (FINISHING, LOOKING)),
    (FINISHING, Acked): Row(rounds.acked, (IDLE, FINISHING)),
    (FINISHING, Refused): Row(recovery.refused, (HEALING, FINISHING, *FENCED)),
    (FINISHING, StoreDown): Row(recovery.stranded, (STRANDED, IDLE)),
    # ---- between rounds
    (PARKED, Retry): Row(rounds.retried, (PARKED, RUNNING, PARKING, FINISHING, VERIFYING, LOOKING)),
    (PARKED, Finished): Row(rounds.ended_early, (PARKED,)),
    (PARKED, Acked): Row(rounds.acked, (PARKED, IDLE)),
    (PARKED, Refused): Row(recovery.refused, (PARKED, HEALING, *FENCED)),
    (PARKED, StoreDown): Row(recovery.stranded, (PARKED,)),
    (PARKED, Expired): Row(recovery.expired, (PARKED, IDLE)),
    (PARKED, Stop): Row(rounds.stopped, (PARKED, FINISHING)),
    (PARKED, Evict): Row(recovery.evicted, (PARKED, IDLE)),
    (PARKED, Drain): Row(recovery.drained, (PARKED, RELEASING)),
    (RELEASING, Retry): Row(takeover.hold, (RELEASING,)),
    (RELEASING, Finished): Row(rounds.ended_early, (RELEASING,)),
    (RELEASING, Acked): Row(recovery.released, (IDLE, LOOKING)),
    (RELEASING, Refused): Row(recovery.released, (IDLE, LOOKING)),
    (RELEASING, StoreDown): Row(recovery.released, (IDLE, LOOKING)),
    # ---- the lease lapsed, or the store went back or away
    (VERIFYING, Retry): Row(takeover.hold, (VERIFYING,)),
    (VERIFYING, Finished): Row(rounds.ended_early, (VERIFYING,)),
    (VERIFYING, Acked): Row(recovery.verified, (PARKED,)),
    (VERIFYING, Refused): Row(recovery.refused, (HEALING, *FENCED)),
    (VERIFYING, StoreDown): Row(recovery.stranded, (PARKED,)),
    (HEALING, Retry): Row(takeover.hold, (HEALING,)),
    (HEALING, Finished): Row(rounds.ended_early, (HEALING,)),
    (HEALING, Acked): Row(recovery.healed, (PARKING, FINISHING, RUNNING, PARKED)),
    (HEALING, Refused): Row(recovery.unhealed, (HEALING, PARKING, FINISHING, RUNNING, PARKED, VERIFYING, *FENCED)),
    (HEALING, StoreDown): Row(recovery.stranded, (STRANDED, IDLE)),
    (STRANDED, Retry): Row(rounds.retried, (STRANDED, PARKING, FINISHING, RUNNING, HEALING, LOOKING)),
    (STRANDED, Finished): Row(rounds.ended_early, (STRANDED,)),
    (STRANDED, Nudged): Row(recovery.nudged, (STRANDED, PARKING, FINISHING, RUNNING, HEALING)),
    (STRANDED, Expired): Row(recovery.expired, (STRANDED, IDLE)),
    (PARKED, Nudged): Row(recovery.nudged, (PARKED, VERIFYING)),
}

LIVE = (RUNNING, PARKING, PARKED, FINISHING, VERIFYING, HEALING, RELEASING, STRANDED, REBUILDING)
TABLE |= {(phase, Left): Row(rounds.left, (phase, IDLE) if phase is RUNNING else (phase,)) for phase in Phase}
TABLE |= {(phase, Noted): Row(rounds.noted, (phase,)) for phase in LIVE}
# While a journal is replayed no effect runs: the cursor answers, or the `once` waits until the frame is rebuilt.
TABLE |= {(phase, Intended): Row(rounds.intended, (phase,)) for phase in LIVE if phase is not REBUILDING}
TABLE |= {(phase, Resulted): Row(rounds.resulted, (phase,)) for phase in LIVE if phase is not REBUILDING}
TABLE |= {(phase, Renewed): Row(recovery.renewed, (phase,)) for phase in LIVE if phase is not RELEASING}
TABLE |= {(phase, Renewed): Row(recovery.refreshed, (phase,)) for phase in (LOOKING, CLAIMING, RELEASING)}
for _signal in (Overran, Expired, Evict, Drain, Stop, Nudged, Renewed):
    for _phase in Phase:
        TABLE.setdefault((_phase, _signal), Row(stay, (_phase,)))


def step(call: Call, event: Event, now: float) -> tuple[Call, tuple[Effect, ...]]:
    """Apply one event: the next state, and what to do, in order.

    Args:
        call: the state, as the last step left it.
        event: what happened.
        now: seconds on the node's clock, the one that its lease is measured on.

    Raises:
        ProtocolError: the table has no row for it, or a row led where it may not; the state is as it was.
    """
    effects: tuple[Effect, ...] = ()
    pending: list[Event] = [event]
    for current in pending:
        row = TABLE.get((call.phase, type(current)))
        if row is None:
            raise ProtocolError(f"{type(current).__name__} can't happen while {call.phase.name}: {call.phase.value}")
        move = row.move(call, current, now)
        if move.call.phase not in row.to:
            raise ProtocolError(f"{type(current).__name__} led from {call.phase.name} to {move.call.phase.name}")
        call = move.call
        effects += move.effects
        # What is to be stepped right after is stepped by this very loop.
        pending += move.again
    return call, effects
