"""A store that went back: a live frame writes its journal again, then goes on where it was
(docs/protocol.md, rule 7)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from framehold_core.call import Phase
from framehold_core.effects import Cancel, Effect, Forget, Lookup, Op, Questions, Reason, Refusal, Write
from framehold_core.events import Acked, Drain, Recheck, StoreBack, WriteRefused
from framehold_core.journal import EntryKind, decode_all
from framehold_core.recovery import UNKEPT
from framehold_core.requests import RecordState, Verdict
from framehold_core.takeover import MAX_TRIES
from framehold_core.value import replace
from framehold_core.writes import once_digest
from tests.core.driver import BEGUN, TOKEN_TTL, Node, answer, parked, reach, resumed, running

K = once_digest("k")


def ops(effects: tuple[Effect, ...]) -> list[Op]:
    """The writes among `effects`."""
    return [effect.op for effect in effects if isinstance(effect, Write)]


def recheck(node: Node) -> tuple[Effect, ...]:
    """The node has noticed that the store may have gone back."""
    return node.feed(Recheck(node.lease))


@pytest.mark.parametrize("act", [lambda n: n.asks("b"), lambda n: n.intends(), lambda n: n.finishes()])
def test_a_live_frame_heals_a_record_that_is_missing(act: object) -> None:
    """Rule 7: the whole journal again, one epoch on, then the write that found it out."""
    node = resumed()
    node.shelf.lose()
    act(node)  # type: ignore[operator]  # one of the three above
    blocked = node.call.outbox.in_flight
    assert ops(node.commit()) == [Op.HEAL]
    assert node.commit() == (blocked,)
    assert node.shelf.stored is not None and node.shelf.stored.record.epoch == node.call.epoch == 2
    node.commit()
    assert node.call.phase in (Phase.PARKED, Phase.IDLE, Phase.RUNNING)


WRITES: dict[str, tuple[Callable[[], Node], Callable[[Node], object]]] = {
    "questions": (resumed, lambda node: node.asks("b")),
    "an intent": (resumed, lambda node: node.intends()),
    "an outcome": (resumed, lambda node: node.finishes()),
    "a check": (parked, recheck),
    "a release": (parked, lambda node: node.feed(Drain())),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_record_that_another_node_may_have_ended_is_not_written_again(write: str) -> None:
    """Rule 7: it is missing, and a tombstone of it may be gone, too. Until then the store has lost it."""
    begin, act = WRITES[write]
    for late in (False, True):
        node = begin()
        node.shelf.lose()
        node.now = BEGUN + TOKEN_TTL - (0 if late else 0.01)
        act(node)
        node.commit()
        assert (
            (node.shelf.stored, node.effects[0]) == (None, Cancel("fenced")) if late else ops(node.effects) == [Op.HEAL]
        )


def test_a_write_of_this_frame_shows_that_nobody_had_ended_its_call_by_then() -> None:
    node = resumed()
    node.now += TOKEN_TTL - 1
    node.intends()
    node.commit()
    node.shelf.lose()
    node.now += TOKEN_TTL - 1
    node.results()
    node.flush()
    assert ops(node.commit()) == [Op.HEAL]


def test_what_a_write_shows_was_so_when_it_was_sent() -> None:
    """The process stood still before it read the reply."""
    node = resumed()
    node.intends()
    sent = node.submit()
    node.now += TOKEN_TTL
    node.hear(*sent)
    node.shelf.lose()
    node.results()
    node.flush()
    assert node.commit()[0] == Cancel("fenced")


def test_a_call_that_has_asked_nothing_is_written_again_however_late() -> None:
    """No token of it exists: no other node can have taken it over."""
    node = running()
    node.intends()
    node.commit()
    node.shelf.lose()
    node.now += 2 * TOKEN_TTL
    node.results()
    node.flush()
    assert ops(node.commit()) == [Op.HEAL]


def test_an_older_record_is_written_over_however_late() -> None:
    """It stands: the call has not ended."""
    node = parked()
    older = node.shelf.stored
    node.retry(answer("a"))
    node.intends()
    node.commit()
    node.shelf.stored = older and replace(older, record=replace(older.record, expires=BEGUN + 9 * TOKEN_TTL))
    node.now += 2 * TOKEN_TTL
    node.results()
    node.flush()
    assert ops(node.commit()) == [Op.HEAL]


def test_a_live_frame_heals_a_record_that_lost_its_last_round() -> None:
    node = parked()
    older = node.shelf.stored
    node.retry(answer("a"))
    node.asks("b")
    node.commit()
    node.shelf.stored = older
    node.retry(answer("b"))
    node.asks("c")
    node.commit_all()
    kinds = [item.kind for item in decode_all(node.shelf.stored.journal if node.shelf.stored else ())]
    assert kinds == [EntryKind.ASK, EntryKind.ANSWER, EntryKind.ASK, EntryKind.ANSWER, EntryKind.ASK]
    assert isinstance(node.heard[3], Questions) and node.heard[3].epoch == 2


def test_a_record_that_moved_while_it_was_healed_is_written_to_again() -> None:
    node = reach(Phase.HEALING)
    blocked = node.call.outbox.queue[0]
    assert node.feed(WriteRefused(Verdict.CHANGED, None)) == (blocked,)
    assert node.call.phase is Phase.PARKING


def test_a_heal_that_finds_another_owner_fences_the_frame() -> None:
    node = reach(Phase.HEALING)
    assert node.feed(WriteRefused(Verdict.FENCED, None)) == (Cancel("fenced"), Lookup())


def test_a_store_that_keeps_going_back_is_given_up_on() -> None:
    node = reach(Phase.HEALING)
    for _ in range(MAX_TRIES - 1):
        node.feed(WriteRefused(Verdict.BEHIND, None))
    assert node.feed(WriteRefused(Verdict.BEHIND, None)) == (Cancel("fenced"), Lookup())


def test_a_heal_that_loses_each_race_is_sent_three_times() -> None:
    node, heals = reach(Phase.HEALING), 1
    while ops(node.feed(WriteRefused(Verdict.CHANGED, None))) == [Op.PARK]:
        assert ops(node.feed(WriteRefused(Verdict.BEHIND, None))) == [Op.HEAL]
        heals += 1
    assert heals == MAX_TRIES and node.effects == (Cancel("fenced"), Lookup())


def test_a_retry_that_comes_while_a_record_is_healed_is_decided_after_it() -> None:
    node = reach(Phase.HEALING)
    node.retry(answer("a"))
    node.commit_all()
    assert isinstance(node.heard[2], Questions) and node.heard[3] == node.heard[2]


def healed_with_two_requests() -> Node:
    """An intent was healed; request 2 had waited for the round, request 3 came meanwhile."""
    node = resumed()
    node.shelf.lose()
    node.intends()
    node.commit()
    node.retry(answer("a"))
    node.commit()
    node.commit()
    node.results()
    node.flush()
    node.commit()
    assert node.call.phase is Phase.RUNNING
    return node


@pytest.mark.parametrize("phase", [Phase.FINISHING, Phase.RUNNING, Phase.PARKED, Phase.VERIFYING])
def test_each_write_is_tried_again_when_the_record_moved_while_it_was_healed(phase: Phase) -> None:
    node = reach(phase)
    if phase in (Phase.RUNNING, Phase.PARKED):
        node.intends()
    node.feed(WriteRefused(Verdict.BEHIND, None))
    blocked = node.call.outbox.queue[0]
    assert node.feed(WriteRefused(Verdict.CHANGED, None)) == (blocked,)
    assert node.call.phase is phase


def test_a_duplicate_sends_a_stranded_heal_again() -> None:
    node = reach(Phase.HEALING)
    node.store_down()
    node.retry(answer("a"))
    assert ops(node.effects) == [Op.HEAL] and node.call.phase is Phase.HEALING


def test_round_1_that_can_be_neither_healed_nor_kept_goes() -> None:
    node = running()
    node.intends()
    node.commit()
    node.results()
    node.flush()
    node.commit()
    node.shelf.lose()
    node.asks("a")
    node.commit()
    node.store_down()
    assert node.heard[1] == Refusal(Reason.UNAVAILABLE, detail=UNKEPT) and node.call.phase is Phase.IDLE


def test_answers_that_no_write_has_carried_are_not_healed() -> None:
    """Rule 2: they go with the write that found the store behind, which has their entries. A digest without them would
    be taken for an answered round that nobody can replay."""
    node = resumed()
    node.shelf.lose()
    node.intends()
    node.commit()
    node.commit()
    healed = node.shelf.stored
    assert healed is not None and healed.record.answers == {} and len(healed.journal) == 1
    node.commit()
    assert node.shelf.stored is not None and set(node.shelf.stored.record.answers) == {1}


# ---- a frame that is handed off, or checked, when the store went back


def test_a_release_that_finds_the_store_behind_heals_it_first() -> None:
    """Rule 7: the frame is the only whole copy. It goes when the record stands again."""
    node = parked()
    node.shelf.lose()
    node.feed(Drain())
    assert ops(node.commit()) == [Op.HEAL] and node.call.phase is Phase.HEALING
    assert ops(node.commit()) == [Op.RELEASE] and node.phase() is Phase.RELEASING
    assert node.commit() == (Cancel("released"), Forget())
    given = node.shelf.stored
    assert given is not None and (given.record.state, given.record.round) == (RecordState.RELEASED, 1)
    assert len(given.journal) == given.record.position == 1


def test_a_release_whose_heal_finds_no_store_waits_for_it() -> None:
    node = parked()
    node.shelf.lose()
    node.feed(Drain())
    node.commit()
    node.store_down()
    assert node.call.phase is Phase.STRANDED
    node.feed(StoreBack())
    node.commit_all()
    assert node.shelf.stored is not None and node.shelf.stored.record.state is RecordState.RELEASED


def test_a_release_is_sent_again_when_the_record_moved_while_it_was_healed() -> None:
    node = reach(Phase.RELEASING)
    node.feed(WriteRefused(Verdict.BEHIND, None))
    release = node.call.outbox.queue[0]
    assert node.feed(WriteRefused(Verdict.CHANGED, None)) == (release,) and node.call.phase is Phase.RELEASING


def test_a_check_heals_a_parked_frame_at_once() -> None:
    """Rule 7: not at its next round. The call waits for its client all the while."""
    node = parked()
    node.shelf.lose()
    assert ops(recheck(node)) == [Op.VERIFY] and node.call.phase is Phase.PARKED
    assert ops(node.commit()) == [Op.HEAL]
    assert node.commit() == ()
    assert node.phase() is Phase.PARKED and node.call.outbox.in_flight is None
    healed = node.shelf.stored
    assert healed is not None and (healed.record.round, healed.record.epoch) == (1, node.call.epoch)


def test_a_check_of_a_record_that_is_whole_verifies_the_frame() -> None:
    """Also after a lapse: then the frame runs under the node's present incarnation."""
    node = parked()
    node.lapse()
    recheck(node)
    assert node.commit() == ()
    stored = node.shelf.stored
    assert stored is not None and (stored.record.epoch, stored.record.incarnation) == (2, node.lease.incarnation)
    assert (node.call.epoch, node.call.incarnation) == (2, node.lease.incarnation)
    assert ops(recheck(node)) == [Op.VERIFY], "the same incarnation proves nothing about the store"


def test_a_check_goes_behind_the_write_in_flight() -> None:
    """That write may have been applied before the store went back."""
    node = resumed()
    node.intends()
    assert recheck(node) == ()
    node.submit()
    node.shelf.lose()
    node.feed(Acked(1, 3, node.call.history, True, 0.0))
    assert [write.op for write in (node.call.outbox.in_flight,) if write] == [Op.VERIFY]


def test_a_check_is_made_once() -> None:
    node = resumed()
    node.intends()
    recheck(node)
    before = node.call
    assert recheck(node) == () and node.call is before


def test_a_call_that_never_wrote_anything_is_not_checked() -> None:
    node = running()
    assert recheck(node) == () and node.call.outbox.in_flight is None


def _retried(node: Node) -> object:
    return node.retry(answer("a"))


@pytest.mark.parametrize(
    "scene",
    [
        (resumed, True, Node.renew, Phase.RUNNING),
        (resumed, False, Node.renew, Phase.RUNNING),
        (parked, True, _retried, Phase.VERIFYING),
        (parked, False, _retried, Phase.VERIFYING),
    ],
)
def test_a_record_that_went_back_within_its_round_is_healed_after_a_lapse(
    scene: tuple[Callable[..., Node], bool, Callable[[Node], object], Phase],
) -> None:
    """The record knows the frame by the incarnation that it had: under the next one the heal would be another's."""
    begin, reentrant, notices, phase = scene
    node = begin(reentrant=reentrant)
    node.intends()
    node.commit()
    older = node.shelf.stored
    node.results()
    node.flush()
    node.commit()
    node.shelf.stored = older
    node.lapse()
    notices(node)
    assert ops(node.commit()) == [Op.HEAL] and ops(node.commit()) == [Op.VERIFY]
    assert node.call.phase is phase
    node.commit_all()
    record = node.shelf.stored.record if node.shelf.stored else None
    assert record is not None and record.incarnation == node.call.incarnation == node.lease.incarnation
    assert record.position == node.call.position and node.call.phase is Phase.RUNNING
