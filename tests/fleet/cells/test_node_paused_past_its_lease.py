"""Row 3: a node is paused past its lease, then wakes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial, again, ended

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


async def asleep(made: FaultyFleet, name: str) -> str:
    """Pause a node until its lease has run out; another node, that may take its calls over."""
    made.pause(name)
    await made.lapsed(name)
    return made.url(made.other(name))


@both
async def test_a_parked_frame_that_nobody_took_over_is_verified_and_goes_on(
    made: FaultyFleet, router: str, trial: Callable[..., Trial], column: str
) -> None:
    """The same frame, one epoch on."""
    call = trial("errand", column)
    await call.begin(router)
    owner, pid = call.owner, made.nodes[call.owner].pid
    await asleep(made, owner)
    await made.woken(owner)
    await call.insist(router)
    assert (call.owner, made.record(call.heard.token)["epoch"]) == (owner, "2")
    assert await call.finish(router) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    assert {line.pid for line in made.ledger.lines(call.name)} == {pid}
    assert made.ledger.count(call.name, "entered") == 1


@both
async def test_a_running_round_that_nobody_took_over_goes_on(
    made: FaultyFleet, router: str, trial: Callable[..., Trial], column: str
) -> None:
    """The handler was in the middle of a round, and comes to the end of it."""
    call = trial("errand", column)
    made.shut(call.name)
    await call.begin(router)
    request = call.answering(made.url(call.owner))
    await made.ledger.has(call.name, "runs")
    await asleep(made, call.owner)
    await made.woken(call.owner)
    made.open(call.name)
    result = await request
    assert again(result) or result.messages == [f"{call.name} two?"]
    assert await call.finish(router) == call.done
    assert made.ledger.count(call.name, "entered") == 1 or column == MARKED
    assert set(made.ledger.effects(call.name)) <= {"first", "second", "third", "fourth"}


async def test_a_parked_reentrant_frame_that_was_taken_over_is_fenced(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """Whatever is sent to the former owner is answered by the new one; the old frame does nothing more."""
    call = trial("errand", MARKED)
    first = await call.begin(router)
    old, pid = call.owner, made.nodes[call.owner].pid
    await call.insist(await asleep(made, old))
    new = call.owner
    await made.woken(old)
    assert new != old
    again = await call.answer(made.url(old), first)
    assert again.messages == [f"{call.name} two?"] and again.headers["framehold-node"] == new
    assert (await call.answer(made.url(old), first, word="other")).code == -32602
    assert await call.finish(made.url(old)) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    assert {line.key for line in made.ledger.lines(call.name, "effect") if line.pid == pid} == {"first"}


async def test_a_parked_unmarked_frame_whose_call_was_lost_is_fenced(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """Its client was told that it is lost: that stays so when the node wakes."""
    call = trial("errand", UNMARKED)
    await call.begin(router)
    old = call.owner
    assert LOST in (await call.insist(await asleep(made, old))).text
    await made.woken(old)
    assert LOST in (await call.insist(made.url(old))).text
    assert made.ledger.effects(call.name) == ["first"]


async def test_a_running_reentrant_round_that_was_taken_over_is_fenced(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """The old frame wakes in the middle of its round: its next effect is refused before it runs, it is cancelled, and
    whoever waited for it hears the new owner or is sent away."""
    call = trial("errand", MARKED)
    made.shut(call.name)
    await call.begin(router)
    old, pid = call.owner, made.nodes[call.owner].pid
    request = call.answering(made.url(old))
    await made.ledger.has(call.name, "runs")
    taken = call.insisting(await asleep(made, old))
    await made.ledger.has(call.name, "runs", 2)
    made.open(call.name)
    new = (await taken).headers["framehold-node"]
    await made.woken(old)
    result = await ended(request)
    if result is not None and not again(result):
        assert result.messages == [f"{call.name} two?"] and result.headers["framehold-node"] == new != old
    await made.ledger.has(call.name, "cancelled")
    assert await call.finish(router) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    ran = [line.key for line in made.ledger.lines(call.name, "effect") if line.pid == pid]
    assert ran == ["first", "second"]


async def test_a_running_unmarked_round_whose_call_was_lost_is_fenced(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """It is not entered again, and what runs on of it neither has an effect nor a result."""
    call = trial("errand", UNMARKED)
    made.shut(call.name)
    await call.begin(router)
    old = call.owner
    request = call.answering(made.url(old))
    await made.ledger.has(call.name, "runs")
    assert LOST in (await call.insist(await asleep(made, old))).text
    made.open(call.name)
    await made.woken(old)
    result = await ended(request)
    assert result is None or again(result) or LOST in result.text
    await made.ledger.has(call.name, "cancelled")
    assert LOST in (await call.insist(made.url(old))).text
    assert made.ledger.effects(call.name) == ["first", "second"]
