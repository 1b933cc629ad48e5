"""The ledger against the calls: what was done once, twice and never."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold_loadtest import ledger
from framehold_loadtest.ledger import UNGUARDED, Effects
from framehold_loadtest.notes import ENDED, LOST, OPEN, Call

pytestmark = pytest.mark.load


def call(name: str, outcome: str = ENDED) -> Call:
    return Call(name, 0.0, 1.0, 3, outcome)


def done(name: str, key: str = "k") -> list[str]:
    return [f"{name} {effect} {key}-{effect}" for effect in ledger.EFFECTS]


AGAIN = [f"a reserve {UNGUARDED}"] * 2


@pytest.mark.parametrize(
    ("lines", "calls", "found"),
    [
        pytest.param(done("a") + done("b"), [call("a"), call("b")], Effects(4, 4, 0, 0), id="each once"),
        pytest.param(done("a")[:1], [call("a")], Effects(2, 1, 0, 1), id="one is not there"),
        pytest.param([*AGAIN, f"a book {UNGUARDED}"], [call("a")], Effects(2, 1, 1, 0), id="no guard, and ran again"),
        pytest.param([*done("a"), *done("a")], [call("a")], Effects(2, 2, 0, 0), id="one key counts once"),
        pytest.param([*done("a"), *done("a", "other")], [call("a")], Effects(2, 0, 2, 0), id="two keys count twice"),
        pytest.param(AGAIN, [call("a", LOST), call("b", OPEN)], Effects(0, 0, 1, 0), id="not ended: twice is twice"),
    ],
)
def test_effects_are_counted_against_the_calls_that_ended(lines: list[str], calls: list[Call], found: Effects) -> None:
    """Under one idempotency key an effect is one, as with any service that is told such keys."""
    assert ledger.compare(lines, calls) == found


def test_what_is_noted_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    assert ledger.read(path) == []
    ledger.note(str(path), "a", "reserve", "k")
    ledger.note(str(path), "a", "book", UNGUARDED)
    assert ledger.read(path) == ["a reserve k", "a book -"]


def test_entries_are_no_effects_and_count_by_call_and_part() -> None:
    """Those of other calls are left out."""
    result = ["a entered trip", "a entered trip", "a entered end", "a reserve -", "b entered trip", "b entered trip"]
    assert ledger.reentries(result, [Call("a", 0, 1, 2, ENDED)]) == 1
    assert ledger.compare(result, [Call("a", 0, 1, 2, ENDED)]) == ledger.Effects(wanted=2, once=1, twice=0, never=1)
