"""Rows 3 and 8 at once: a node loses its store, its clients still reach it, and everybody else goes on.

What is swallowed arrives late, when the line heals: a write that its node gave up long ago meets a record that moved.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial, again, ended

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

ways = pytest.mark.parametrize(
    "lost",
    [{"replies": False}, {"requests": False}, {}],
    ids=["requests swallowed", "replies swallowed", "both swallowed"],
)


async def cut(made: FaultyFleet, name: str, lost: dict[str, bool]) -> str:
    """Part a node from the store until its lease has run out; another node, that may take its calls over."""
    made.lines[name].swallow(**lost)
    await made.lapsed(name)
    return made.url(made.other(name))


async def healed(made: FaultyFleet, name: str) -> None:
    """Let everything through, and wait until the node has a lease again."""
    made.lines[name].heal()
    await made.registered(name)


@ways
async def test_a_parked_reentrant_call_is_taken_over_and_its_old_frame_never_speaks(
    made: FaultyFleet, trial: Callable[..., Trial], lost: dict[str, bool]
) -> None:
    """The node that is cut off sends its clients away, before and after another one answered them."""
    call = trial("errand", MARKED)
    first = await call.begin(made.url(made.other()))
    old, pid = call.owner, made.nodes[call.owner].pid
    other = await cut(made, old, lost)
    assert (await call.answer(made.url(old))).status == 503
    await call.insist(other)
    new = call.owner
    assert (await call.answer(made.url(old), first)).status == 503
    await healed(made, old)
    call.heard = first
    again = await call.insist(made.url(old))
    assert again.messages == [f"{call.name} two?"] and again.headers["framehold-node"] == new != old
    assert await call.finish(made.url(old)) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    assert {line.key for line in made.ledger.lines(call.name, "effect") if line.pid == pid} == {"first"}


async def test_a_parked_unmarked_call_is_lost_elsewhere_and_its_old_frame_never_speaks(
    made: FaultyFleet, trial: Callable[..., Trial]
) -> None:
    """Told once, it stays lost."""
    call = trial("errand", UNMARKED)
    await call.begin(made.url(made.other()))
    old = call.owner
    other = await cut(made, old, {})
    assert LOST in (await call.insist(other)).text
    assert (await call.answer(made.url(old))).status == 503
    await healed(made, old)
    assert LOST in (await call.insist(made.url(old))).text
    assert made.ledger.effects(call.name) == ["first"]


async def test_a_parked_call_that_nobody_took_over_goes_on_in_its_frame(
    made: FaultyFleet, trial: Callable[..., Trial]
) -> None:
    """The partition was nobody's death."""
    calls = [trial("errand", column) for column in (MARKED, UNMARKED)]
    old = made.other()
    for call in calls:
        await call.begin(made.url(old))
    await cut(made, old, {})
    await healed(made, old)
    for call in calls:
        assert await call.finish(made.url(old)) == call.done
        assert made.ledger.count(call.name, "entered") == 1


@ways
async def test_a_running_reentrant_round_is_taken_over_and_its_old_frame_is_cancelled(
    made: FaultyFleet, trial: Callable[..., Trial], lost: dict[str, bool]
) -> None:
    """Both frames come to the same effect: only the owner's may run it, and only the owner's result is heard."""
    call = trial("errand", MARKED)
    made.shut(call.name)
    await call.begin(made.url(made.other()))
    old, pid = call.owner, made.nodes[call.owner].pid
    request = call.answering(made.url(old))
    await made.ledger.has(call.name, "runs")
    taken = call.insisting(await cut(made, old, lost))
    await made.ledger.has(call.name, "runs", 2)
    made.open(call.name)
    new = (await taken).headers["framehold-node"]
    await made.ledger.has(call.name, "passed", 2)
    await healed(made, old)
    result = await ended(request)
    if result is not None and not again(result):
        assert result.messages == [f"{call.name} two?"] and result.headers["framehold-node"] == new != old
    assert await call.finish(made.url(old)) == call.done
    await made.ledger.has(call.name, "cancelled")
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    ran = [line.key for line in made.ledger.lines(call.name, "effect") if line.pid == pid]
    assert ran == ["first", "second"]


async def test_a_running_unmarked_round_is_lost_elsewhere_and_its_old_frame_is_cancelled(
    made: FaultyFleet, trial: Callable[..., Trial]
) -> None:
    """No effect of it runs any more, and it has no result."""
    call = trial("errand", UNMARKED)
    made.shut(call.name)
    await call.begin(made.url(made.other()))
    old = call.owner
    request = call.answering(made.url(old))
    await made.ledger.has(call.name, "runs")
    assert LOST in (await call.insist(await cut(made, old, {}))).text
    made.open(call.name)
    await made.ledger.has(call.name, "passed")
    await healed(made, old)
    result = await ended(request)
    assert result is None or again(result) or LOST in result.text
    assert LOST in (await call.insist(made.url(old))).text
    await made.ledger.has(call.name, "cancelled")
    assert made.ledger.effects(call.name) == ["first", "second"]
