"""THE state machine: one row for each thing that may happen in each phase, and `step`, which applies it.

Invariants, as far as one node can keep them (docs/protocol.md has their exact words):

I1 single-owner   a frame is entered only by `Start` in an empty call or by a granted claim, which raises the epoch
I2 monotone       epoch, round and position change only by what the store acknowledged
I3 output-gate    `Questions` and `Outcome` leave in the step of the acknowledgement that makes them true, or of a
                  record that was read; the one exception is the row (FINISHING, StoreDown), which says `Ungated`
I4 one-resume     `Deliver` leaves in the step that moves PARKED to RUNNING, and only there
I5 once           `Go` leaves only after its intent's acknowledgement, inside the window that its frame runs under
I6 no-hidden-re-entry   `Run` with entries leaves only after `Claimed`, which the store refuses for unmarked handlers

A missing row is a bug of the code that drives the machine (the engine of a node, or the simulation): `step` raises, it
does not guess. There is one exception: what timers, the node's heartbeat and operators send (`SIGNALS`) may come in any
phase, and changes nothing where no row says otherwise. To find where a retry is decided, see `retry.ROWS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
    Flush,
    Found,
    Intended,
    Left,
    Noted,
    Overran,
    Rebuilt,
    Recheck,
    Renewed,
    Resulted,
    Retry,
    Start,
    Stop,
    StoreBack,
    StoreDown,
    Unreadable,
    WriteRefused,
)
from .value import Value

IDLE, LOOKING, CLAIMING, REBUILDING = Phase.IDLE, Phase.LOOKING, Phase.CLAIMING, Phase.REBUILDING
RUNNING, PARKING, PARKED, FINISHING = Phase.RUNNING, Phase.PARKING, Phase.PARKED, Phase.FINISHING
VERIFYING, HEALING, RELEASING, STRANDED = Phase.VERIFYING, Phase.HEALING, Phase.RELEASING, Phase.STRANDED


class TransitionRow(Value):
    """What follows from an event in a phase, and the phases that it may lead to."""

    move: Callable[[Call, Any, float], Move]
    to: tuple[Phase, ...]


def ignore(call: Call, event: Event, now: float) -> Move:
    """Nothing follows: the event came too late, or too early, to matter."""
    return Move(call)


SIGNALS = (Flush, Overran, Expired, Evict, Drain, Stop, StoreBack, Renewed, Recheck)
"""The events that may come in any phase. Timers, the heartbeat and operators send them to every call, or to one that
they saw in another phase a moment ago: they can't know the present one. `TABLE` has a row of `ignore` for each phase
where such an event has no meaning."""

FENCED = (LOOKING, IDLE)
"""Where the frame behind a refused write leads: to the record where a retry waits, else to nothing."""

TABLE: dict[tuple[Phase, type[Any]], TransitionRow] = {
    (IDLE, Start): TransitionRow(rounds.start, (RUNNING,)),
    (IDLE, Retry): TransitionRow(takeover.look_up, (LOOKING,)),
    # ---- no frame: ask the store
    (LOOKING, Retry): TransitionRow(takeover.decide_later, (LOOKING,)),
    (LOOKING, Found): TransitionRow(takeover.found, (CLAIMING, LOOKING, IDLE)),
    (LOOKING, StoreDown): TransitionRow(takeover.lookup_unanswered, (IDLE,)),
    (LOOKING, Unreadable): TransitionRow(takeover.unreadable, (IDLE,)),
    (CLAIMING, Retry): TransitionRow(takeover.decide_later, (CLAIMING,)),
    (CLAIMING, Claimed): TransitionRow(takeover.claim_granted, (REBUILDING, IDLE)),
    # Two nodes may claim one call. The compare-and-set of the record lets one through (the fence, rule 3); the other
    # reads the record again, and then relays to the winner.
    (CLAIMING, WriteRefused): TransitionRow(takeover.claim_refused, (LOOKING, IDLE)),
    (CLAIMING, StoreDown): TransitionRow(takeover.lookup_unanswered, (IDLE,)),
    (CLAIMING, Unreadable): TransitionRow(takeover.unreadable, (IDLE,)),
    (REBUILDING, Retry): TransitionRow(takeover.decide_later, (REBUILDING,)),
    # Rule 12: the frame stands where its journal ends, PARKED or RUNNING.
    # Rule 4: VERIFYING first, where the lease lapsed between the claim and this moment.
    (REBUILDING, Rebuilt): TransitionRow(takeover.rebuilt, (PARKED, RUNNING, VERIFYING)),
    (REBUILDING, Diverged): TransitionRow(takeover.diverged, (IDLE,)),
    (REBUILDING, Unreadable): TransitionRow(takeover.unreadable, (IDLE,)),
    # ---- a round runs
    (RUNNING, Retry): TransitionRow(rounds.retried, (RUNNING, LOOKING)),
    (RUNNING, Asked): TransitionRow(rounds.asked, (PARKING,)),
    (RUNNING, Finished): TransitionRow(rounds.finished, (FINISHING, IDLE)),
    # Rule 8: the limit of the round may be met while an effect is under way. Then:
    #   1. the requests that wait are refused, and the frame stays RUNNING
    #   2. the effect ends, and its result is written
    #   3. the write is acknowledged: (RUNNING, Acked) drops the frame (IDLE)
    (RUNNING, Overran): TransitionRow(rounds.overran, (RUNNING, IDLE)),
    # Decision 024: nothing happens (RUNNING) while an effect or a write is under way; else the outcome is committed, or
    # the call ends at once where it never wrote anything (IDLE).
    (RUNNING, Stop): TransitionRow(rounds.stopped, (RUNNING, FINISHING, IDLE)),
    (RUNNING, Acked): TransitionRow(rounds.acked, (RUNNING, IDLE)),
    # Rule 13: a second intent of one key leaves the effect in doubt (RUNNING). Rule 7: the store went back (HEALING).
    # The fence: another owns the call (FENCED).
    (RUNNING, WriteRefused): TransitionRow(recovery.write_refused, (RUNNING, HEALING, *FENCED)),
    # Decision 013: the round goes on without its verification (RUNNING). The frame keeps, and its write waits
    # (STRANDED). Round 1 has no token, so nobody can come back for its frame (IDLE).
    (RUNNING, StoreDown): TransitionRow(recovery.write_unanswered, (RUNNING, STRANDED, IDLE)),
    (RUNNING, StoreBack): TransitionRow(recovery.store_back, (RUNNING,)),
    (PARKING, Retry): TransitionRow(rounds.retried, (PARKING, LOOKING)),
    (PARKING, Finished): TransitionRow(rounds.finished_unheard, (PARKING,)),
    # The questions are durable (PARKED), or a write of an effect that stood before them is (PARKING). IDLE: a round 1
    # that was given up while the store was away, and whose effect is now through (rule 8).
    (PARKING, Acked): TransitionRow(rounds.acked, (PARKED, PARKING, IDLE)),
    # As in (RUNNING, WriteRefused): rule 7 (HEALING), rule 13 (PARKING: the intent stood before the questions), the
    # fence (FENCED).
    (PARKING, WriteRefused): TransitionRow(recovery.write_refused, (HEALING, PARKING, *FENCED)),
    (PARKING, StoreDown): TransitionRow(recovery.write_unanswered, (STRANDED, IDLE)),
    (FINISHING, Retry): TransitionRow(rounds.retried, (FINISHING, LOOKING)),
    (FINISHING, Acked): TransitionRow(rounds.acked, (IDLE, FINISHING)),
    # As in (RUNNING, WriteRefused): rule 7 (HEALING), rule 13 (FINISHING: the intent stood before the outcome), the
    # fence (FENCED).
    (FINISHING, WriteRefused): TransitionRow(recovery.write_refused, (HEALING, FINISHING, *FENCED)),
    (FINISHING, StoreDown): TransitionRow(recovery.write_unanswered, (STRANDED, IDLE)),
    # ---- between rounds
    # Rule 8: the answers are accepted and the round runs in one step (RUNNING), so a retry of the same round that comes
    # next joins it. Rule 10: only some answers came, the rest is asked (PARKING), or no usable one (PARKED, decision
    # 014). Rule 11: the handler ended while parked (FINISHING). Rule 4: the lease lapsed since (VERIFYING). The retry
    # table: the token is of a later epoch, so this frame is stale (LOOKING).
    (PARKED, Retry): TransitionRow(rounds.retried, (PARKED, RUNNING, PARKING, FINISHING, VERIFYING, LOOKING)),
    (PARKED, Finished): TransitionRow(rounds.finished_unheard, (PARKED,)),
    (PARKED, Acked): TransitionRow(rounds.acked, (PARKED, IDLE)),
    # As in (RUNNING, WriteRefused): rule 7 (HEALING), rule 13 (PARKED: an effect of a side task), the fence (FENCED).
    (PARKED, WriteRefused): TransitionRow(recovery.write_refused, (PARKED, HEALING, *FENCED)),
    (PARKED, StoreDown): TransitionRow(recovery.write_unanswered, (PARKED,)),
    # Rule 8, for the next four: each may race with an effect of a side task, or with a write. Whoever finds one under
    # way does nothing (PARKED).
    (PARKED, Expired): TransitionRow(recovery.expired, (PARKED, IDLE)),
    (PARKED, Stop): TransitionRow(rounds.stopped, (PARKED, FINISHING)),
    (PARKED, Evict): TransitionRow(recovery.evicted, (PARKED, IDLE)),
    (PARKED, Drain): TransitionRow(recovery.drained, (PARKED, RELEASING)),
    # Rule 8: a call that is being handed off accepts no answers, not even if the store left the release unanswered: it
    # may have been applied. A retry that comes before the answer is decided from the record (LOOKING).
    (RELEASING, Retry): TransitionRow(recovery.retried_while_released, (RELEASING,)),
    (RELEASING, Finished): TransitionRow(rounds.finished_unheard, (RELEASING,)),
    (RELEASING, Acked): TransitionRow(recovery.released, (IDLE, LOOKING)),
    # Rule 7: the store went back, and the frame heals it before it goes (HEALING). The fence: another owns the call.
    (RELEASING, WriteRefused): TransitionRow(recovery.release_refused, (HEALING, *FENCED)),
    (RELEASING, StoreDown): TransitionRow(recovery.release_unanswered, (RELEASING,)),
    (RELEASING, StoreBack): TransitionRow(recovery.store_back, (RELEASING,)),
    (RELEASING, Expired): TransitionRow(recovery.expired, (RELEASING, IDLE)),
    # ---- the lease lapsed, or the store went back or away
    (VERIFYING, Retry): TransitionRow(takeover.decide_later, (VERIFYING,)),
    (VERIFYING, Finished): TransitionRow(rounds.finished_unheard, (VERIFYING,)),
    (VERIFYING, Acked): TransitionRow(recovery.verify_acked, (PARKED,)),
    # Rule 4: another claimed the call while the lease was gone (FENCED). Rule 7: the store went back (HEALING).
    (VERIFYING, WriteRefused): TransitionRow(recovery.write_refused, (HEALING, *FENCED)),
    (VERIFYING, StoreDown): TransitionRow(recovery.write_unanswered, (PARKED,)),
    (HEALING, Retry): TransitionRow(takeover.decide_later, (HEALING,)),
    (HEALING, Finished): TransitionRow(rounds.finished_unheard, (HEALING,)),
    # Rule 7: the record stands again, and the frame goes on with the write that found the store behind: a commit of
    # questions (PARKING) or of an outcome (FINISHING), a write of an effect in a round (RUNNING) or between rounds
    # (PARKED), a verification (VERIFYING), or a release (RELEASING).
    (HEALING, Acked): TransitionRow(recovery.heal_acked, (PARKING, FINISHING, RUNNING, PARKED, VERIFYING, RELEASING)),
    # Rule 7, and the race of a heal with another writer. BEHIND: the store went back once more (HEALING). CHANGED: the
    # record moved since it was read; the write that found the store behind is sent again in its own phase, and its
    # answer says whether the call was taken over. Any other verdict, or the last try: FENCED.
    (HEALING, WriteRefused): TransitionRow(
        recovery.heal_refused, (HEALING, PARKING, FINISHING, RUNNING, PARKED, VERIFYING, RELEASING, *FENCED)
    ),
    (HEALING, StoreDown): TransitionRow(recovery.write_unanswered, (STRANDED, IDLE)),
    # Rule 1: nobody heard of the stalled write, so it stays as it was. A retry of the same round joins it and sends it
    # again, in the phase that awaits its answer. Other retries are answered or refused without it (STRANDED). The retry
    # table: a token of a later epoch shows that this frame is stale (LOOKING).
    (STRANDED, Retry): TransitionRow(rounds.retried, (STRANDED, PARKING, FINISHING, RUNNING, HEALING, LOOKING)),
    (STRANDED, Finished): TransitionRow(rounds.finished_unheard, (STRANDED,)),
    # As in (STRANDED, Retry): the stalled write is sent again, in the phase that awaits its answer.
    (STRANDED, StoreBack): TransitionRow(recovery.store_back, (STRANDED, PARKING, FINISHING, RUNNING, HEALING)),
    (STRANDED, Expired): TransitionRow(recovery.expired, (STRANDED, IDLE)),
    (PARKED, StoreBack): TransitionRow(recovery.store_back, (PARKED, VERIFYING)),
    # Rule 7: the store may have gone back. In every other phase a write is in flight, in line or stalled, and its own
    # verdict says so.
    (RUNNING, Recheck): TransitionRow(recovery.rechecked, (RUNNING,)),
    (PARKED, Recheck): TransitionRow(recovery.rechecked, (PARKED,)),
}

LIVE = (RUNNING, PARKING, PARKED, FINISHING, VERIFYING, HEALING, RELEASING, STRANDED, REBUILDING)
"""The phases with a frame."""
# Rule 8: the last client of a round may leave at any moment. Only a round that runs ends by it (IDLE), and not while an
# effect is under way.
TABLE |= {(phase, Left): TransitionRow(rounds.left, (phase, IDLE) if phase is RUNNING else (phase,)) for phase in Phase}
TABLE |= {(phase, Noted): TransitionRow(rounds.noted, (phase,)) for phase in LIVE}
# While a journal is replayed no effect runs: the cursor answers, or the `once` waits until the frame is rebuilt.
TABLE |= {(phase, Intended): TransitionRow(rounds.intended, (phase,)) for phase in LIVE if phase is not REBUILDING}
TABLE |= {(phase, Resulted): TransitionRow(rounds.resulted, (phase,)) for phase in LIVE if phase is not REBUILDING}
# Rule 13: before an end is committed it has taken along what was owed.
TABLE |= {(phase, Flush): TransitionRow(rounds.flushed, (phase,)) for phase in LIVE if phase is not REBUILDING}
TABLE |= {(phase, Renewed): TransitionRow(recovery.renewed, (phase,)) for phase in LIVE if phase is not RELEASING}
TABLE |= {
    (phase, Renewed): TransitionRow(recovery.refresh_leases, (phase,)) for phase in (LOOKING, CLAIMING, RELEASING)
}
TABLE |= {
    (phase, kind): TransitionRow(ignore, (phase,)) for phase in Phase for kind in SIGNALS if (phase, kind) not in TABLE
}


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
        pending += move.follow_ups
    return call, effects
