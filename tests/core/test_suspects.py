"""Which calls are suspects, and when a node may enter one of them."""

from __future__ import annotations

import pytest

from framehold_core.pauses import is_blamed
from framehold_core.suspects import PATIENCE, Suspects, is_suspect
from tests.core.test_record import RECORD


@pytest.mark.parametrize(
    ("attempts", "ended", "suspect"),
    [(0, True, False), (0, False, False), (1, True, True), (1, False, False), (2, True, True), (2, False, True)],
)
def test_who_is_a_suspect(attempts: int, ended: bool, suspect: bool) -> None:
    """A call that a claim would leave with more than one attempt; a process that ends then is held against it."""
    record = RECORD._replace(attempts=attempts)
    assert is_suspect(record, ended) is suspect
    assert is_blamed(record._replace(attempts=attempts + ended)) is suspect


def test_suspects_are_entered_one_at_a_time_and_behind_others() -> None:
    line: Suspects[str] = Suspects()
    assert line.next(0.0, others=False) is None
    for name in ("a", "b", "b", "c"):
        line.join(name)
    assert line.waiting == 3 and line.waits("a") and not line.has_turn("a")
    assert line.next(0.0, others=True) is None, "other calls are being taken over"
    assert line.next(1.0, others=False) == "a" and line.has_turn("a") and not line.waits("a")
    assert line.next(1.0 + PATIENCE - 0.1, others=False) is None, "a has not moved on"
    line.leave("b")
    line.leave("a")
    assert line.next(2.0, others=False) == "c"
    line.leave("nobody")
    assert line.has_turn("c")


def test_one_that_runs_on_keeps_the_others_for_a_while_only() -> None:
    line: Suspects[str] = Suspects(patience=2.0)
    line.join("a")
    line.join("b")
    assert line.next(10.0, others=False) == "a"
    assert line.next(11.9, others=False) is None
    assert line.next(12.0, others=False) == "b"
    line.leave("a")
    assert line.has_turn("b"), "the end of a changes nothing for b"
