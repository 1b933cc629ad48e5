"""Where a retry is decided: each row by a case that it alone decides, and the retry table of docs/protocol-tables.md
line by line."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from framehold_core import retry
from framehold_core.events import Answer, Retry
from framehold_core.ids import Boot, Incarnation, NodeId, Waiter
from framehold_core.lease import Lease
from framehold_core.requests import Answered
from framehold_core.retry import ROWS, Decision, Progress, decide, digest, usable
from tests.core.driver import answer

YES, NO = answer("a", "yes"), answer("a", "no")
LEASE = Lease(NodeId("n1"), Incarnation("i1"), Boot("b1"), 1, 100.0)


def came(round_: int, *answers: Answer, epoch: int = 2, round_history: str = "m") -> Retry:
    """A retry of a round, with a token of epoch 2."""
    return Retry(Waiter(1), round_, epoch, round_history, NodeId("n1"), answers, LEASE)


def stands(
    *answered: int, keys: tuple[str, ...] = ("a",), done: bool = False, lost: bool = False, round_: int = 4
) -> Progress:
    """A call in round 4 and epoch 2. `answered` are the rounds whose "yes" is recorded."""
    recorded = tuple(Answered(number, digest((YES,)), ("a",)) for number in answered)
    return Progress(2, round_, "m", keys, recorded, done, lost)


BY_ROW = {
    "token epoch > epoch": (came(4, YES, epoch=3), stands()),
    "r > R": (came(5, YES), stands()),
    "recorded, other": (came(4, NO), stands(4)),
    "done": (came(4, YES), stands(4, done=True)),
    "lost": (came(4, YES), stands(4, lost=True)),
    "r = R, recorded": (came(4, YES), stands(4)),
    "r = R, of another history": (came(4, YES, round_history="other"), stands()),
    "r = R, no usable answer": (came(4, answer("stranger")), stands()),
    "r = R": (came(4, YES), stands()),
    "r = R - 1": (came(3, YES), stands(3)),
    "r < R - 1": (came(2, YES), stands(2, 3)),
}

LAW = {
    "r = R, no answers recorded: deliver": (came(4, YES), stands(3), Decision.DELIVER),
    "r = R, recorded, same digest: join": (came(4, YES), stands(3, 4), Decision.JOIN),
    "r = R - 1, same digest: the questions again": (came(3, YES), stands(3), Decision.ASK_AGAIN),
    "r = R - 1, same digest, round R runs": (came(3, YES), stands(3, 4), Decision.ASK_AGAIN),
    "round R, other digest: conflict": (came(4, NO), stands(4), Decision.CONFLICT),
    "round R - 1, other digest: conflict": (came(3, NO), stands(3), Decision.CONFLICT),
    "round long past, other digest: conflict": (came(1, NO), stands(1, 2, 3), Decision.CONFLICT),
    "finished, other digest: conflict": (came(4, NO), stands(4, done=True), Decision.CONFLICT),
    "r < R - 1: already answered": (came(2, YES), stands(2, 3), Decision.ALREADY),
    "token epoch below the record's: accept": (came(4, YES, epoch=1), stands(), Decision.DELIVER),
    "token epoch above: stale frame": (came(4, YES, epoch=3), stands(), Decision.NEWER),
    "token epoch above, even of a recorded round": (came(3, NO, epoch=3), stands(3), Decision.NEWER),
    "r > R: the store is behind": (came(5, YES), stands(), Decision.AHEAD),
    "r > R of a finished call": (came(5, YES), stands(4, done=True), Decision.AHEAD),
    "done: the outcome again": (came(4, YES), stands(4, done=True), Decision.OUTCOME),
    "done, an older round": (came(2, YES), stands(2, 3, 4, done=True), Decision.OUTCOME),
    "lost": (came(4, YES), stands(lost=True), Decision.LOST),
    "no new usable answer: the same round again": (came(4), stands(), Decision.ASK_AGAIN),
    "some answers: they are delivered": (came(4, YES), stands(keys=("a", "b")), Decision.DELIVER),
    "extras beside the recorded answers": (came(4, YES, answer("x")), stands(4), Decision.JOIN),
    "the same round of a history that was healed away": (
        came(4, YES, round_history="old"),
        stands(),
        Decision.ASK_AGAIN,
    ),
}


def test_the_first_look_says_what_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """`decide` looks at the retry first that nearly all are. Every case, with that look and by the table alone."""
    given = ((), (YES,), (NO,), (answer("stranger"),), (YES, answer("b")))
    progresses = [
        stands(*answered, keys=keys, done=done, lost=lost, round_=round_)
        for answered, keys, done, lost, round_ in itertools.product(
            ((), (1,), (3,), (4,), (3, 4)), (("a",), ("a", "b"), ()), (False, True), (False, True), (0, 3, 4)
        )
    ]
    retries = [
        came(round_, *answers, epoch=epoch, round_history=history)
        for round_, answers, epoch, history in itertools.product(range(6), given, (1, 2, 3), ("m", "other"))
    ]
    cases = list(itertools.product(retries, progresses))
    first = [decide(*case) for case in cases]
    monkeypatch.setattr(retry, "ROWS", list(ROWS))
    assert first == [decide(*case) for case in cases]
    assert {Decision.DELIVER, Decision.ASK_AGAIN} < {decision for decision, _ in first}


def test_every_row_has_a_case() -> None:
    assert list(BY_ROW) == [row.when for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.when)
def test_a_row_decides_its_case_and_no_other_row_would_decide_it_alike(
    row: retry.RetryRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    event, progress = BY_ROW[row.when]
    decision, case = decide(event, progress)
    assert decision is row.then
    assert next(other for other in ROWS if other.holds(case)) is row
    monkeypatch.setattr(retry, "ROWS", tuple(other for other in ROWS if other is not row))
    without = decide(event, progress)[0] if row is not ROWS[-1] else None
    assert without is not decision


@pytest.mark.parametrize(("event", "progress", "decision"), LAW.values(), ids=LAW.keys())
def test_the_table_of_the_protocol(event: Retry, progress: Progress, decision: Decision) -> None:
    assert decide(event, progress)[0] is decision


@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.lists(st.sampled_from((YES, NO, answer("b"), answer("stranger")))),
    st.sets(st.integers(1, 4)),
    st.booleans(),
    st.booleans(),
)
def test_every_retry_is_decided(
    round_: int, epoch: int, answers: list[Answer], recorded: set[int], done: bool, lost: bool
) -> None:
    decision, case = decide(came(round_, *answers, epoch=epoch), stands(*recorded, done=done, lost=lost))
    if decision is Decision.DELIVER:
        assert round_ == 4 and 4 not in recorded and case.usable and not (done or lost)
    if decision is Decision.JOIN:
        assert round_ == 4 and 4 in recorded and case.digest == digest((YES,))


def test_answers_are_taken_in_the_order_of_the_asking_and_extras_are_ignored() -> None:
    one, two = answer("a"), answer("b")
    assert usable((answer("x"), two, one), ("a", "b", "c")) == (one, two)


def test_a_digest_names_the_answers_whatever_their_order() -> None:
    one, two = answer("a"), answer("b")
    assert digest((one, two)) == digest((two, one))
    assert len({digest((one,)), digest((one, two)), digest((NO,)), digest(())}) == 4


def test_a_key_that_looks_like_several_answers_has_a_digest_of_its_own() -> None:
    """A key is the author's text: the length before it keeps one answer from passing for two."""
    first, second = answer("a"), answer("b", "no")
    one = Answer(f"a={first.digest}b", second.digest, second.value)
    assert digest((first, second)) != digest((one,))
