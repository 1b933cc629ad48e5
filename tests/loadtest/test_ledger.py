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


def test_each_effect_of_an_ended_call_is_wanted_once() -> None:
    assert ledger.compare(done("a") + done("b"), [call("a"), call("b")]) == Effects(4, 4, 0, 0)


def test_an_effect_that_is_not_there_is_found() -> None:
    assert ledger.compare(done("a")[:1], [call("a")]) == Effects(wanted=2, once=1, twice=0, never=1)


def test_an_effect_without_a_guard_that_ran_again_is_found() -> None:
    lines = [f"a reserve {UNGUARDED}", f"a reserve {UNGUARDED}", f"a book {UNGUARDED}"]
    assert ledger.compare(lines, [call("a")]) == Effects(wanted=2, once=1, twice=1, never=0)


def test_one_idempotency_key_counts_once_and_two_count_twice() -> None:
    """As with any service that is told such keys."""
    assert ledger.compare([*done("a"), *done("a")], [call("a")]).twice == 0
    assert ledger.compare([*done("a"), *done("a", "other")], [call("a")]).twice == 2


def test_nothing_is_wanted_of_a_call_that_did_not_end_but_twice_is_twice() -> None:
    lines = [f"a reserve {UNGUARDED}"] * 2
    assert ledger.compare(lines, [call("a", LOST), call("b", OPEN)]) == Effects(wanted=0, once=0, twice=1, never=0)


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
