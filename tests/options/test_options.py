"""Eight ways to write one tool: their clients can't tell them apart, their audit logs can.

The figures are counted on running servers that the official client calls, in both eras.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from mcp_types import ElicitResult

import measure
import weather
from tests.options.calling import ACCEPT, CANCEL, DECLINE, Option, Told, first_round, option, retried

pytestmark = pytest.mark.anyio

LOOKED_UP = "PLACE: 64 degrees fahrenheit"
BY_DEFAULT = "PLACE: 18 degrees celsius"
ASKED = [
    (
        weather.QUESTION,
        {
            "properties": {"units": {"enum": ["celsius", "fahrenheit"], "title": "Units", "type": "string"}},
            "required": ["units"],
        },
    )
]
ASKING_OLDER_ONES = [way for way in measure.WAYS if way not in ("E", "F")]


@pytest.fixture(scope="module")
def options() -> Iterator[dict[str, Option]]:
    """All of them, each on a server of its own."""
    with ExitStack() as stack:
        yield {way: stack.enter_context(option(way)) for way in measure.WAYS}


@pytest.mark.parametrize("way", measure.WAYS)
@pytest.mark.parametrize("answer", [ACCEPT, DECLINE, CANCEL], ids=lambda answer: answer.action)
async def test_invariant_a_client_sees_the_same_of_each(
    options: dict[str, Option], way: str, answer: ElicitResult
) -> None:
    """The same question with the same form, once, and the same text; one of 2025, too, where it is asked."""
    for era in measure.ERAS if way in ASKING_OLDER_ONES else ["2026"]:
        result = await options[way].call(era, answer)
        assert result.text == (LOOKED_UP if answer is ACCEPT else "PLACE: not looked up, since no units were given")
        assert result.asked == ASKED


@pytest.mark.parametrize("way", ["E", "F"])
async def test_invariant_a_client_of_2025_that_is_not_asked_gets_the_authors_default(
    options: dict[str, Option], way: str
) -> None:
    assert await options[way].call("2025") == Told(BY_DEFAULT, [], 1)


AUDITS = {**dict.fromkeys(measure.WAYS, 1), "B": 2}


@pytest.mark.parametrize(("way", "audits"), AUDITS.items(), ids=AUDITS)
async def test_invariant_the_audit_log_has_one_line_a_call_but_for_b(
    options: dict[str, Option], way: str, audits: int
) -> None:
    """On the wire that enters handlers again; on the older one they run through. What branches on the era holds
    nothing."""
    assert (await options[way].call("2026")).audits == audits
    assert (await options[way].call("2025")).audits == 1
    assert way not in ("C", "D") or options[way].held == 0


async def test_option_a_is_served_to_2025_by_the_shim(
    options: dict[str, Option], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its handler returns its question; the older client is asked over its session, and the guard keeps the audit at
    one. Without the shim such a client gets an error."""
    assert await options["A"].call("2025") == Told(LOOKED_UP, ASKED, 1)
    monkeypatch.setenv("FRAMEHOLD_LEGACY_SHIM", "false")
    with option("A") as bare:
        assert await bare.call("2026") == Told(LOOKED_UP, ASKED, 1)
        refused = await bare.call("2025")
        assert refused.text.startswith("-32603: ") and "legacy_shim is off" in refused.text
        assert (refused.asked, refused.audits) == ([], 0)


async def test_option_e_is_taken_up_by_any_node(options: dict[str, Option]) -> None:
    """Nothing is held, and its state says nothing: another process takes the retry."""
    asked = await first_round(options["E"], "place e")
    assert asked.request_state is None and options["E"].held == 0
    with option("E") as another:
        assert await retried(another, "place e", asked) == "place e: 64 degrees fahrenheit"
    assert weather.AUDIT.count("place e") == 1


async def test_option_f_carries_what_ran_to_any_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit stands above the guard; the other node knows from the sealed state that it ran."""
    monkeypatch.setenv("FRAMEHOLD_KEYS", "f" * 64)
    with option("F") as one, option("F") as another:
        asked = await first_round(one, "place f")
        assert weather.AUDIT.count("place f") == 1 and one.held == 0
        assert await retried(another, "place f", asked) == "place f: 64 degrees fahrenheit"
    assert weather.AUDIT.count("place f") == 1


async def test_option_g_ends_once(options: dict[str, Option]) -> None:
    """Also where the last retry comes three times."""
    asked = await first_round(options["G"], "place g")
    assert weather.AUDIT.count("place g") == 0
    texts = await asyncio.gather(*(retried(options["G"], "place g", asked) for _ in range(3)))
    assert set(texts) == {"place g: 64 degrees fahrenheit"}
    assert weather.AUDIT.count("place g") == 1


async def test_option_h_under_hold_keeps_its_frame(options: dict[str, Option]) -> None:
    """The coroutine waits in memory; a duplicate gets what the first got."""
    asked = await first_round(options["H"], "place h")
    assert (asked.request_state or "").startswith("h1.") and options["H"].held == 1
    texts = await asyncio.gather(*(retried(options["H"], "place h", asked) for _ in range(3)))
    assert set(texts) == {"place h: 64 degrees fahrenheit"} and options["H"].held == 0
    assert weather.AUDIT.count("place h") == 1


async def test_option_h_under_replay_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its journal rides in the token: another node takes it up, and runs no effect again."""
    monkeypatch.setenv("FRAMEHOLD_KEYS", "h" * 64)
    with option("H, replay") as one, option("H, replay") as another:
        asked = await first_round(one, "place r")
        assert (asked.request_state or "").startswith("s1.") and one.held == 0
        assert await retried(another, "place r", asked) == "place r: 64 degrees fahrenheit"
    assert weather.AUDIT.count("place r") == 1
