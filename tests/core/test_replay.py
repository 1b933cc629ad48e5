"""The replay cursor: what a handler that is entered again gets to hear, and when (docs/protocol.md, rule 12)."""

from __future__ import annotations

import pytest

from framehold_core.errors import DivergenceError
from framehold_core.journal import Entry, EntryKind, EntryLane
from framehold_core.replay import Cursor, Once

MAIN, SIDE = EntryLane.MAIN, EntryLane.SIDE


class Tape:
    """A journal, written line by line."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, kind: EntryKind, key: str, round_: int, lane: EntryLane = MAIN) -> Tape:
        value = f"{key}@{round_}".encode()
        fp = "" if kind is EntryKind.ANSWER else f"fp-{key}"
        self.entries.append(Entry(len(self.entries), kind, key, round_, lane, fp, "json", value))
        return self

    def asks(self, round_: int, *keys: str, lane: EntryLane = MAIN) -> Tape:
        for key in keys:
            self.add(EntryKind.ASK, key, round_, lane)
        return self

    def answers(self, round_: int, *keys: str) -> Tape:
        for key in keys:
            self.add(EntryKind.ANSWER, key, round_)
        return self

    def cursor(self) -> Cursor:
        return Cursor(self.entries)


def heard(entries: tuple[Entry, ...]) -> list[str]:
    """What was delivered, as key@round."""
    return [item.value.decode() for item in entries]


def ask(cursor: Cursor, *keys: str, lane: EntryLane = MAIN) -> None:
    for key in keys:
        assert cursor.ask(key, f"fp-{key}", lane) is None


# ---- round by round


def test_a_round_is_delivered_when_all_of_its_asks_were_asked_again() -> None:
    """As it was, not as fast as it is asked for."""
    cursor = Tape().asks(1, "a", "b", lane=SIDE).answers(1, "a", "b").cursor()
    ask(cursor, "b", lane=SIDE)
    assert cursor.ready() == () and not cursor.live
    ask(cursor, "a", lane=SIDE)
    assert heard(cursor.ready()) == ["a@1", "b@1"]
    assert cursor.live


def test_a_call_that_only_had_prefilled_answers_is_live_after_them() -> None:
    cursor = Tape().asks(0, "name").answers(0, "name").cursor()
    assert not cursor.live
    assert cursor.ask("name", "fp-name", MAIN) is not None
    assert [cursor.live, cursor.ready()] == [True, ()]


def test_a_key_that_is_asked_in_two_rounds_is_delivered_in_each() -> None:
    """A handler that asks for a name until it is valid uses one key: only *pending* questions must differ."""
    cursor = Tape().asks(1, "name").answers(1, "name").asks(2, "name").answers(2, "name").cursor()
    ask(cursor, "name")
    assert heard(cursor.ready()) == ["name@1"]
    assert cursor.ready() == () and not cursor.live
    ask(cursor, "name")
    assert heard(cursor.ready()) == ["name@2"]
    assert cursor.live


# ---- lanes


def test_the_main_task_is_checked_in_order() -> None:
    tape = Tape().add(EntryKind.INTENT, "audit", 0).add(EntryKind.RESULT, "audit", 0).asks(1, "a")
    with pytest.raises(
        DivergenceError, match=r"recorded is once 'audit' \(entry 0\), but the handler came to ask 'a';"
    ):
        ask(tape.cursor(), "a")


def test_a_side_task_may_do_something_new() -> None:
    assert Tape().asks(1, "a").cursor().once("k", "fp-k", SIDE) is Once.LIVE


# ---- effects without an intent


# ---- the recorded order


def once(cursor: Cursor, *keys: str) -> None:
    for key in keys:
        assert isinstance(cursor.once(key, f"fp-{key}", SIDE), Entry)


def effects(*results: str) -> Tape:
    """Two effects side by side, whose results came in this order."""
    tape = Tape()
    for key in ("a", "b"):
        tape.add(EntryKind.INTENT, key, 0, SIDE)
    for key in results:
        tape.add(EntryKind.RESULT, key, 0, SIDE)
    return tape


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("came", [("a", "b"), ("b", "a")])
def test_results_are_given_one_by_one_in_the_order_in_which_they_came(
    order: tuple[str, ...], came: tuple[str, ...]
) -> None:
    cursor = effects(*order).cursor()
    once(cursor, *came)
    assert [heard(cursor.ready()) for _ in range(3)] == [[f"{order[0]}@0"], [f"{order[1]}@0"], []]
    assert cursor.live


def test_an_effect_without_an_intent_is_given_after_the_handler_has_come_to_it() -> None:
    cursor = Tape().add(EntryKind.EFFECT, "a", 0, SIDE).add(EntryKind.EFFECT, "b", 0, SIDE).cursor()
    once(cursor, "b")
    assert cursor.ready() == ()
    once(cursor, "a")
    assert [heard(cursor.ready()) for _ in range(3)] == [["a@0"], ["b@0"], []]


def test_a_handler_that_does_not_wait_for_a_recorded_result_is_told_of_it() -> None:
    cursor = effects("a", "b").cursor()
    once(cursor, "a", "b")
    cursor.ready()
    text = str(cursor.overdue(3))
    assert "recorded is the result of once 'b' (entry 3), which it did not wait for" in text


# ---- divergence


@pytest.mark.parametrize(
    ("kind", "name"), [(EntryKind.ASK, "ask"), (EntryKind.INTENT, "once"), (EntryKind.VALUE, "value")]
)
def test_a_handler_that_ends_with_entries_unconsumed_diverges(kind: EntryKind, name: str) -> None:
    cursor = Tape().asks(1, "a", lane=SIDE).add(kind, "late", 1, SIDE).cursor()
    ask(cursor, "a", lane=SIDE)
    with pytest.raises(DivergenceError, match=rf"ended; recorded is {name} 'late' \(entry 1\), which it did not"):
        cursor.finish()


def test_a_handler_that_ends_before_it_heard_its_recorded_answers_diverges() -> None:
    cursor = Tape().asks(1, "a").answers(1, "a").cursor()
    ask(cursor, "a")
    with pytest.raises(DivergenceError):
        cursor.finish()


def test_a_handler_that_consumed_all_of_it_may_end() -> None:
    cursor = Tape().asks(1, "a").answers(1, "a").cursor()
    ask(cursor, "a")
    cursor.ready()
    cursor.finish()


# ---- once and values


def test_a_recorded_result_is_given_back() -> None:
    cursor = Tape().add(EntryKind.INTENT, "audit", 0).add(EntryKind.RESULT, "audit", 0).cursor()
    result = cursor.once("audit", "fp-audit", MAIN)
    assert isinstance(result, Entry) and result.kind is EntryKind.RESULT
    assert not cursor.live and cursor.ready() == (result,) and cursor.live
    assert cursor.once("audit", "fp-audit", MAIN) == result, "a second use of the key joins the first"


def test_a_second_use_of_a_key_with_other_arguments_diverges() -> None:
    cursor = Tape().add(EntryKind.INTENT, "audit", 0).add(EntryKind.RESULT, "audit", 0).asks(1, "a").cursor()
    cursor.once("audit", "fp-audit", MAIN)
    with pytest.raises(DivergenceError, match=r"recorded is once 'audit' \(entry 0\).*with another text, schema"):
        cursor.once("audit", "fp-other", MAIN)


def test_a_recorded_value_is_given_back_and_a_new_one_must_be_made() -> None:
    cursor = Tape().add(EntryKind.VALUE, "now-1", 0).cursor()
    recorded = cursor.value("now-1", "fp-now-1", MAIN)
    assert recorded is not None and recorded.value == b"now-1@0"
    assert cursor.value("now-2", "fp-now-2", MAIN) is None


def test_who_comes_to_the_next_result_may_take_it_at_once() -> None:
    cursor = effects("b", "a").cursor()
    once(cursor, "a")
    assert not cursor.takes("a"), "the result of the other came first, and it has not come to that"
    once(cursor, "b")
    assert not cursor.takes("a") and cursor.takes("b") and not cursor.takes("b")
    assert cursor.takes("a") and cursor.live
