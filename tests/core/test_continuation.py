"""The table itself: what has no row is refused, what comes too late changes nothing, and every row has a test.

The stories that walk the rows are in `test_rounds` and `test_once` (they cover `rounds`), `test_takeover`,
`test_recovery`, `test_lapses`, `test_store_down` and `test_healing` (they cover `takeover` and `recovery`)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from framehold_core import continuation, events
from framehold_core.call import Phase
from framehold_core.continuation import TABLE, TransitionRow, ignore, step
from framehold_core.effects import Op, Write
from framehold_core.errors import ProtocolError
from framehold_core.events import (
    Drain,
    Event,
    Evict,
    Expired,
    Finished,
    Left,
    Noted,
    Overran,
    Start,
    Stop,
    StoreBack,
    WriteRefused,
)
from framehold_core.ids import Waiter
from framehold_core.journal import Draft, EntryKind, EntryLane
from framehold_core.outbox import EMPTY
from framehold_core.requests import Verdict
from tests.core import (
    test_healing,
    test_lapses,
    test_once,
    test_recovery,
    test_rounds,
    test_stopped,
    test_store_down,
    test_takeover,
)
from tests.core.driver import answer, reach, resumed

NOTE = Draft(EntryKind.VALUE, "now-1", 1, EntryLane.MAIN, "fp", "json", b"1")
SIGNALS: tuple[Event, ...] = (Overran(), Expired(), Evict(), Drain(), Stop("stopped"), StoreBack())


def test_an_event_without_a_row_is_a_bug_of_the_shell_and_changes_nothing() -> None:
    for phase, kind in itertools.product(Phase, (Start, Finished)):
        if (phase, kind) in TABLE:
            continue
        node = reach(phase)
        before = node.call
        event: Event = Start(Waiter(99)) if kind is Start else Finished("late")
        with pytest.raises(ProtocolError, match=f"{kind.__name__} can't happen while {phase.name}"):
            step(node.call, event, node.now)
        assert node.call is before


def test_a_row_that_leads_where_it_may_not_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    node = reach(Phase.PARKED)
    row = TABLE[Phase.PARKED, Evict]
    place: tuple[Phase, type[Any]] = Phase.PARKED, Evict
    monkeypatch.setitem(TABLE, place, TransitionRow(row.move, (Phase.PARKED,)))
    with pytest.raises(ProtocolError, match="Evict led from PARKED to IDLE"):
        node.feed(Evict())


def test_every_event_has_a_row() -> None:
    assert {kind for _, kind in TABLE} == set(events.Event.__args__)


def test_a_signal_that_comes_too_early_or_too_late_changes_nothing() -> None:
    for phase, event in itertools.product(Phase, SIGNALS):
        if TABLE[phase, type(event)].move is ignore:
            node = reach(phase)
            before = node.call
            assert node.feed(event) == () and node.call is before


def test_a_request_may_leave_at_any_time() -> None:
    for phase in Phase:
        node = reach(phase)
        waiters = {item.waiter for item in (*node.call.waiting, *node.call.undecided)}
        for waiter in waiters:
            node.leave(waiter)
        assert not (node.call.waiting or node.call.undecided)
        assert node.feed(Left(Waiter(99))) == ()


def test_what_a_live_frame_learns_is_kept_in_every_phase() -> None:
    for phase in continuation.LIVE:
        node = reach(phase)
        node.feed(Noted((NOTE,)))
        assert node.call.notes[-1] == NOTE and node.call.phase is phase


def test_an_intent_and_its_result_line_up_behind_the_write_in_flight_in_every_phase() -> None:
    for phase in continuation.LIVE:
        if phase is Phase.REBUILDING:
            continue
        node = reach(phase)
        before = node.call.outbox.in_flight
        node.intends()
        node.results()
        node.flush()
        outbox = node.call.outbox
        in_line = (*((outbox.in_flight,) if outbox.in_flight else ()), *outbox.queue)
        ops = [write.op.value for write in in_line]
        assert ops[-2:] == ["intent", "result"] and node.call.phase is phase
        assert before is None or node.call.outbox.in_flight is before


def test_no_effect_is_intended_while_a_journal_is_replayed() -> None:
    node = reach(Phase.REBUILDING)
    with pytest.raises(ProtocolError):
        node.intends()


def test_a_lapse_is_verified_behind_what_is_under_way() -> None:
    for phase in (Phase.PARKING, Phase.FINISHING, Phase.HEALING, Phase.STRANDED):
        node = reach(phase)
        node.lapse()
        node.renew()
        assert node.call.phase is phase
        node.feed(StoreBack())
        node.commit_all()
        assert node.phase() is (Phase.IDLE if phase is Phase.FINISHING else Phase.PARKED)
        assert phase is Phase.FINISHING or (node.call.epoch, node.call.incarnation) >= (2, "n1-i2")


def test_a_conflicting_intent_leaves_the_phase_as_it_is() -> None:
    for phase in (Phase.RUNNING, Phase.PARKING, Phase.PARKED, Phase.FINISHING):
        node = resumed() if phase is not Phase.PARKED else reach(phase)
        node.intends()
        if phase is Phase.PARKING:
            node.asks("b")
        elif phase is Phase.FINISHING:
            node.finishes()
        node.feed(WriteRefused(Verdict.CONFLICT, None))
        assert node.call.phase is phase


def test_a_token_of_a_later_owner_ends_a_live_frame_in_every_phase() -> None:
    for phase in (Phase.PARKING, Phase.FINISHING, Phase.STRANDED):
        node = reach(phase)
        for item in node.call.waiting:
            node.leave(item.waiter)
        assert node.token is not None
        node.retry(answer("a"), token=node.token._replace(epoch=9))
        assert node.call.phase is Phase.LOOKING


def test_an_outbox_knows_what_is_in_line() -> None:
    first, finish = Write(Op.RESULT), Write(Op.FINISH)
    assert not EMPTY.has(Op.FINISH)
    assert EMPTY.send(finish)[0].has(Op.FINISH)
    behind = EMPTY.send(first)[0].send(finish)[0]
    assert behind.has(Op.FINISH) and behind.has(Op.RESULT) and not behind.has(Op.PARK)


# ---- coverage

UNWALKED = {
    # In a round that never parked these phases have a write in flight only for a `once`, which keeps the frame.
    "FINISHING StoreDown IDLE",
    "RUNNING StoreDown IDLE",
    # Nobody waits and nobody is held in PARKED.
    "PARKED WriteRefused LOOKING",
    # What is stranded is stalled, so a nudge always moves it.
    "STRANDED StoreBack STRANDED",
}
"""What rows allow and no shell that keeps the contract can bring about."""


def stories() -> Iterator[Callable[..., object]]:
    """Each test of a life, with its parameters filled in; those marked as bugs aren't counted."""
    here = ModuleType("here")
    here.__dict__.update({name: value for name, value in globals().items() if name in WALKS})
    for module in (
        test_rounds,
        test_once,
        test_takeover,
        test_recovery,
        test_store_down,
        test_healing,
        test_lapses,
        test_stopped,
        here,
    ):
        for name, test in vars(module).items():
            marks = {mark.name: mark for mark in getattr(test, "pytestmark", ())}
            if not name.startswith("test_") or "xfail" in marks:
                continue
            if "parametrize" not in marks:
                yield test
                continue
            _, values = marks["parametrize"].args
            yield from (lambda test=test, value=value: test(value) for value in values)


WALKS = {
    "test_a_signal_that_comes_too_early_or_too_late_changes_nothing",
    "test_a_request_may_leave_at_any_time",
    "test_what_a_live_frame_learns_is_kept_in_every_phase",
    "test_an_intent_and_its_result_line_up_behind_the_write_in_flight_in_every_phase",
    "test_a_lapse_is_verified_behind_what_is_under_way",
    "test_a_conflicting_intent_leaves_the_phase_as_it_is",
    "test_a_token_of_a_later_owner_ends_a_live_frame_in_every_phase",
}


@pytest.fixture(scope="module")
def walked() -> set[tuple[Phase, type[Any], Phase]]:
    """Each arrow (phase, event, phase) that some story walks."""
    seen: set[tuple[Phase, type[Any], Phase]] = set()

    def watched(key: tuple[Phase, type[Any]], row: TransitionRow) -> TransitionRow:
        def move(call: Any, event: Any, now: float) -> Any:
            moved = row.move(call, event, now)
            seen.add((*key, moved.call.phase))
            return moved

        # The signals' test knows a row without consequences by its function.
        return row if row.move is ignore else TransitionRow(move, row.to)

    with pytest.MonkeyPatch.context() as patch:
        for key, row in TABLE.items():
            patch.setitem(TABLE, key, watched(key, row))
        for story in stories():
            story()
    return seen


def test_every_row_of_the_table_is_walked_by_some_test(walked: set[tuple[Phase, type[Any], Phase]]) -> None:
    rows = {key for key, row in TABLE.items() if row.move is not ignore}
    missing = sorted(f"{phase.name} {kind.__name__}" for phase, kind in rows - {arrow[:2] for arrow in walked})
    assert missing == []


def test_every_arrow_of_the_table_is_walked_by_some_test(walked: set[tuple[Phase, type[Any], Phase]]) -> None:
    arrows = {(*key, to) for key, row in TABLE.items() if row.move is not ignore for to in row.to}
    missing = {f"{phase.name} {kind.__name__} {to.name}" for phase, kind, to in arrows - walked}
    assert missing == UNWALKED
