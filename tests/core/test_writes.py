"""What a record says of its journal is a hint: the entries decide (docs/protocol.md, rule 29)."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_core import writes
from framehold_core.call import Phase
from framehold_core.errors import JournalError
from framehold_core.events import Unreadable
from framehold_core.requests import Answered, Evidence, RecordState, Stored
from framehold_core.value import replace
from tests.core.driver import answer, elsewhere, parked


def stored() -> Stored:
    """A call that was asked twice, has answered once, and has an effect with a result and one without."""
    node = parked("a", "b")
    node.retry(answer("a"))
    node.commit_all()
    node.retry(answer("b"))
    node.intends("k")
    node.commit_all()
    node.results("k")
    node.intends("l")
    node.commit_all()
    found = node.shelf.stored
    assert found is not None and len(found.record.answers) == 2 and set(found.record.intents.values()) == {True, False}
    return found


def changes() -> dict[str, dict[str, Any]]:
    """Each field that speaks of the journal, with another value."""
    record = stored().record
    (one, first), (two, second) = sorted(record.answers.items())
    (key, _), (other, _) = record.intents.items()
    return {
        "history": {"history": "0" * 32},
        "no history": {"history": ""},
        "an earlier round": {"round": record.round - 1},
        "a later round": {"round": record.round + 1},
        "answers forgotten": {"answers": {one: first}},
        "no answers": {"answers": {}},
        "other answers": {"answers": {one: first, two: replace(second, digest="0" * 32)}},
        "other questions answered": {"answers": {one: first, two: replace(second, keys=("z",))}},
        "answers that nobody gave": {"answers": {**record.answers, 7: Answered(7, "0" * 32, ("a",))}},
        "an effect forgotten": {"intents": {key: True}},
        "an effect undone": {"intents": {key: False, other: False}},
        "an effect that is done": {"intents": {key: True, other: True}},
        "an effect made up": {"intents": {**record.intents, "0" * 32: False}},
    }


@pytest.mark.parametrize("name", changes())
def test_a_record_that_says_otherwise_than_its_journal_is_not_believed(name: str) -> None:
    """Whichever field it is; the error says which."""
    whole = stored()
    with pytest.raises(JournalError, match="not the one that its record names"):
        writes.read(replace(whole, record=replace(whole.record, **changes()[name])))


def test_the_record_of_a_call_that_is_over_has_no_journal() -> None:
    """Nothing is entered by it, so nothing is compared."""
    whole = stored()
    assert writes.read(Stored(replace(whole.record, state=RecordState.DONE), ())) == ()


def test_a_record_that_is_changed_just_before_its_claim_enters_nothing() -> None:
    """What was granted is read again: the lookup saw another record."""
    first = parked("a")
    node = elsewhere(first)
    node.retry(answer("a"))
    node.look(Evidence.GONE)
    held = first.shelf.stored
    assert held is not None
    first.shelf.stored = replace(held, record=replace(held.record, round=2))
    with pytest.raises(JournalError):
        node.commit()
    node.feed(Unreadable("it was changed"))
    assert node.phase() is Phase.IDLE
