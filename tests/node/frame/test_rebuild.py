"""What a rebuild makes of the entries of a journal: the answers it delivers, and the words of its errors."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framehold.frame.asks import Ask
from framehold.frame.rebuild import GIVEN, Rebuild
from framehold_core.errors import DivergenceError, SealError
from framehold_core.journal import Entry, EntryKind, EntryLane, canonical
from framehold_core.replay import CHANGED, DEPENDS, LIKELY
from framehold_core.value import replace
from tests.kit.engine import question

pytestmark = pytest.mark.anyio


def entry(n: int, kind: EntryKind, key: str, value: bytes = b"", round_: int = 1) -> Entry:
    return Entry(n, kind, key, round_, EntryLane.SIDE, question(key).fp, "json", value)


def plain(item: Entry) -> bytes:
    """Entries of these tests are not sealed."""
    return item.value


def end_of(replay: Rebuild) -> str:
    """What a handler is told that ends before it has come to what is recorded."""
    with pytest.raises(DivergenceError) as told:
        replay.cursor.finish()
    return str(told.value)


@pytest.mark.parametrize(
    ("recorded", "present", "cause"),
    [
        ("then", "now", CHANGED),
        ("now", "now", DEPENDS),
        ("", "now", LIKELY),
        ("now", "", LIKELY),
        ("", "", LIKELY),
    ],
    ids=["changed", "as it was", "not known then", "not known now", "not known"],
)
def test_the_likely_cause_of_a_divergence(recorded: str, present: str, cause: str) -> None:
    """Both digests of the handler's code tell it; with one of them nobody knows."""
    told = end_of(Rebuild([entry(0, EntryKind.ASK, "q")], plain, recorded, present))
    assert told.endswith(f"; likely {cause}")


@pytest.mark.parametrize("kind", [EntryKind.ASK, EntryKind.INTENT])
def test_a_divergence_names_a_question_or_an_effect_in_the_words_of_its_author(kind: EntryKind) -> None:
    assert "'k' (Whose?)" in end_of(Rebuild([entry(0, kind, "k", b"Whose?")], plain))


@pytest.mark.parametrize("kind", [EntryKind.VALUE, EntryKind.EFFECT])
def test_a_divergence_says_nothing_of_what_a_value_or_a_result_is(kind: EntryKind) -> None:
    """It is logged, and these are the business of the call."""
    assert "secret" not in end_of(Rebuild([entry(0, kind, "k", b"secret")], plain))


def test_a_divergence_does_without_the_words_that_no_key_opens() -> None:
    def sealed(item: Entry) -> bytes:
        raise SealError("no key opens it")

    assert "ask 'k' (entry 0)" in end_of(Rebuild([entry(0, EntryKind.ASK, "k", b"?")], sealed))


@pytest.mark.parametrize("first", [(EntryKind.ASK, GIVEN), (EntryKind.VALUE, "another")])
def test_the_input_beside_the_arguments_is_found_by_its_kind_and_key(first: tuple[EntryKind, str]) -> None:
    given = replace(entry(1, EntryKind.VALUE, GIVEN, b"{}"), fp=GIVEN)
    assert Rebuild([entry(0, *first, b"wrong"), given], plain).given() == b"{}"
    assert Rebuild([entry(0, *first, b"wrong")], plain).given() == b""


async def _given_up(pending: dict[str, Ask]) -> None:
    del pending["one"]


async def _cancelled(pending: dict[str, Ask]) -> None:
    pending["one"].answer.cancel()


@pytest.mark.parametrize("gives_up", [_given_up, _cancelled])
async def test_the_answer_to_a_question_that_nobody_waits_for_is_passed_over(gives_up: Any) -> None:
    """The handler gave it up, as it did the first time: the others of its round get theirs."""
    keys = ("one", "two")
    asks = [entry(n, EntryKind.ASK, key) for n, key in enumerate(keys)]
    replay = Rebuild(
        [*asks, *(entry(n, EntryKind.ANSWER, key, canonical(key)) for n, key in enumerate(keys, 2))], plain
    )
    loop = asyncio.get_running_loop()
    pending = {key: Ask(key, question(key), EntryLane.SIDE, loop.create_future()) for key in keys}
    for ask in pending.values():
        replay.cursor.ask(ask.key, ask.question.fp, ask.lane)
    await gives_up(pending)
    assert replay.deliver_next(pending, pytest.fail) and replay.cursor.live
    assert pending["two"].answer.result() == "two"
