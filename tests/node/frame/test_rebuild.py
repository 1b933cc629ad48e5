"""What a replay says of a handler that does not do again what was recorded, and whom it answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from framehold.frame.asks import Ask
from framehold.frame.rebuild import Rebuild
from framehold_core.errors import DivergenceError, SealError
from framehold_core.journal import Entry, EntryKind, EntryLane
from framehold_core.replay import CHANGED, DEPENDS, LIKELY
from tests.kit.engine import question

pytestmark = pytest.mark.anyio
LANE = EntryLane.MAIN
ASKED = Entry(0, EntryKind.ASK, "which", 1, LANE, question("Which day?").fp, "text", b"Which day?")
INTENT = Entry(0, EntryKind.INTENT, "pay", 1, LANE, "f", "text", b"shop.pay")


def diverged(rebuild: Rebuild) -> str:
    with pytest.raises(DivergenceError) as found:
        rebuild.cursor.value("another", "f", LANE)
    return str(found.value)


@pytest.mark.parametrize(
    ("recorded", "present", "cause"),
    [("", "", LIKELY), ("a", "", LIKELY), ("", "a", LIKELY), ("a", "b", CHANGED), ("a", "a", DEPENDS)],
)
def test_the_cause_follows_from_the_code_that_is_known(recorded: str, present: str, cause: str) -> None:
    told = diverged(Rebuild([ASKED], lambda item: item.value, recorded, present))
    assert next(one for one in (LIKELY, CHANGED, DEPENDS) if one in told) == cause


@pytest.mark.parametrize(("item", "text"), [(ASKED, "Which day?"), (INTENT, "shop.pay")])
def test_what_was_recorded_is_told_by_its_text(item: Entry, text: str) -> None:
    """Unless it can't be opened."""

    def forged(item: Entry) -> bytes:
        raise SealError("forged")

    assert text in diverged(Rebuild([item], lambda item: item.value))
    assert text not in diverged(Rebuild([item], forged))


@pytest.mark.parametrize("state", ["it waits", "it was answered meanwhile", "nobody asks any more"])
async def test_a_recorded_answer_goes_to_whoever_waits_for_it(state: str) -> None:
    answer = Entry(1, EntryKind.ANSWER, "which", 1, LANE, ASKED.fp, "json", b'"Friday"')
    rebuild, given = Rebuild([ASKED, answer], lambda item: item.value), list[Any]()
    rebuild.cursor.ask("which", ASKED.fp, LANE)
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    if state == "it was answered meanwhile":
        future.set_result("Sunday")
    asks = {} if state == "nobody asks any more" else {"which": Ask("which", question("Which day?"), LANE, future)}
    assert rebuild.deliver_next(asks, given.append) and given == []
    heard = {"it waits": "Friday", "it was answered meanwhile": "Sunday"}
    assert state not in heard or future.result() == heard[state]
