"""What is said of a divergence: what was recorded, what was asked, and why that is likely."""

from __future__ import annotations

import pytest

from framehold_core.errors import DivergenceError
from framehold_core.journal import Entry, EntryKind, EntryLane
from framehold_core.replay import CHANGED, DEPENDS, LIKELY, Cursor

MAIN, SIDE = EntryLane.MAIN, EntryLane.SIDE
TEXTS = {"units": "Which units?", "audit": "audit_log('Paris')"}


def line(n: int, kind: EntryKind, key: str, round_: int = 1, lane: EntryLane = MAIN) -> Entry:
    return Entry(n, kind, key, round_, lane, f"fp-{key}", "json", b"")


def told(item: Entry) -> str:
    """The words of a driver that can open what is recorded."""
    return TEXTS.get(item.key, "")


AUDITED = (
    line(0, EntryKind.INTENT, "audit", 0),
    line(1, EntryKind.RESULT, "audit", 0),
    line(2, EntryKind.ASK, "units"),
)
ASKED = AUDITED[2:]


def complaint(cursor: Cursor, *asked: tuple[str, str, str]) -> str:
    """What is said of a handler that asks these (key, fingerprint, words)."""
    with pytest.raises(DivergenceError) as caught:
        for key, fp, words in asked:
            cursor.ask(key, fp, MAIN, words)
    return str(caught.value)


def test_both_sides_are_told_in_an_authors_words() -> None:
    text = complaint(Cursor(AUDITED, told), ("units", "fp-units", "Which units?"))
    assert text == (
        "recorded is once 'audit' (audit_log('Paris')) (entry 0), but the handler came to ask 'units' (Which units?); "
        f"it was not continued; likely {LIKELY}"
    )


def test_the_words_of_an_entry_are_asked_for_only_when_something_is_to_be_said() -> None:
    """They are sealed: opening them costs, and may fail where nobody needs them."""
    opened: list[int] = []

    def told_of(item: Entry) -> str:
        opened.append(item.n)
        return ""

    cursor = Cursor(ASKED, told_of)
    cursor.ask("units", "fp-units", MAIN, "Which units?")
    cursor.finish()
    assert opened == []


@pytest.mark.parametrize("likely", [CHANGED, DEPENDS])
def test_the_likely_cause_is_the_one_that_the_driver_knows(likely: str) -> None:
    """A driver that compares the code that recorded with its own knows which of the two it is."""
    cursor = Cursor(AUDITED, told, likely)
    assert complaint(cursor, ("units", "fp-units", "")).endswith(f"; likely {likely}")
    assert str(cursor.overdue(1)).endswith(f"; likely {likely}")
    with pytest.raises(DivergenceError) as caught:
        cursor.finish()
    assert str(caught.value).endswith(f"; likely {likely}")


# ---- what a handler never comes to


def test_a_handler_that_takes_too_long_is_told_what_it_did_not_come_to() -> None:
    text = str(Cursor(AUDITED, told).overdue(2.5))
    assert text.startswith("after 2.5 s the handler waits for something else; recorded is once 'audit' (audit_log(")
    assert "(entry 0), which it did not come to; nothing was answered; likely " in text


def test_an_overdue_handler_that_asked_all_of_it_left_its_answers_unheard() -> None:
    """It asked again, but the driver never found it settled: the answers of that round stand there."""
    answers = (line(3, EntryKind.ANSWER, "units"),)
    cursor = Cursor((*AUDITED, *answers), told)
    cursor.once("audit", "fp-audit", MAIN)
    assert cursor.ready() == (AUDITED[1],)
    cursor.ask("units", "fp-units", MAIN)
    text = "recorded are the answers of round 1 ('units'), which it did not wait for; nothing was answered"
    assert text in str(cursor.overdue(10))
    with pytest.raises(DivergenceError, match=r"the handler ended; recorded are the answers of round 1 \('units'\)"):
        cursor.finish()


def test_keys_that_hold_odd_characters_stay_on_one_line() -> None:
    key = "a'b\n\x1b"
    text = complaint(Cursor((line(0, EntryKind.ASK, key),)), ("other", "fp", ""))
    assert repr(key) in text and "\n" not in text and "\x1b" not in text
