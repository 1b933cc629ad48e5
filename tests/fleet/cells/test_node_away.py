"""Rows 3 and 8: a node is away past its lease, and comes back. It was stopped, or parted from its store while its
clients still reached it: what is swallowed then arrives late, so a write that its node gave up long ago meets a record
that moved."""

from __future__ import annotations

import pytest

from tests.fleet.faults import EFFECTS, MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trials, again, ended

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

STOPPED, PARTED = "stopped", "parted"
SWALLOWED: dict[str, dict[str, bool]] = {
    PARTED: {},
    "requests swallowed": {"replies": False},
    "replies swallowed": {"requests": False},
}
two_ways = pytest.mark.parametrize("how", [STOPPED, PARTED])
all_ways = pytest.mark.parametrize("how", [STOPPED, *SWALLOWED])
both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


async def away(made: FaultyFleet, name: str, how: str) -> str:
    """Keep a node from its store until its lease has run out; another node, that may take its calls over."""
    if how == STOPPED:
        made.pause(name)
    else:
        made.lines[name].swallow(**SWALLOWED[how])
    await made.lapsed(name)
    return made.url(made.other(name))


async def back(made: FaultyFleet, name: str, how: str) -> None:
    """Let it go on, or let everything through, and wait until it has a lease again."""
    if how == STOPPED:
        made.nodes[name].resume()
    else:
        made.lines[name].heal()
    await made.registered(name)


@two_ways
@both
async def test_a_parked_frame_that_nobody_took_over_is_verified_and_goes_on(
    made: FaultyFleet, router: str, trial: Trials, how: str, column: str
) -> None:
    """The same frame, one epoch on."""
    call = trial("errand", column)
    await call.begin(router)
    owner, pid = call.owner, made.nodes[call.owner].pid
    await away(made, owner, how)
    await back(made, owner, how)
    await call.insist(router)
    assert (call.owner, made.record(call.heard.token)["epoch"]) == (owner, "2")
    await made.completes([call], router, entered=1)
    assert {line.pid for line in made.ledger.lines(call.name)} == {pid}


@both
async def test_a_running_round_that_nobody_took_over_goes_on(
    made: FaultyFleet, router: str, trial: Trials, column: str
) -> None:
    call = trial("errand", column)
    await call.begin(router)
    request = await made.at_its_gate(call, made.url(call.owner))
    await away(made, call.owner, STOPPED)
    await back(made, call.owner, STOPPED)
    made.open(call.name)
    result = await request
    assert again(result) or result.messages == [f"{call.name} two?"]
    assert await call.finish(router) == call.done
    assert made.ledger.count(call.name, "entered") == 1 or column == MARKED
    assert set(made.ledger.effects(call.name)) <= set(EFFECTS)


@all_ways
async def test_a_parked_reentrant_frame_that_was_taken_over_never_speaks(
    made: FaultyFleet, router: str, trial: Trials, how: str
) -> None:
    """A node that is cut off sends its clients away, before and after another one answered them. Later whatever is sent
    to the former owner is answered by the new one."""
    call = trial("errand", MARKED)
    first = await call.begin(router)
    old, pid = call.owner, made.nodes[call.owner].pid
    other = await away(made, old, how)
    assert how == STOPPED or (await call.answer(made.url(old))).status == 503
    await call.insist(other)
    new = call.owner
    assert how == STOPPED or (await call.answer(made.url(old), first)).status == 503
    await back(made, old, how)
    call.heard = first
    reply = await call.insist(made.url(old))
    assert reply.messages == [f"{call.name} two?"] and reply.headers["framehold-node"] == new != old
    assert (await call.answer(made.url(old), first, word="other")).code == -32602
    await made.completes([call], made.url(old))
    assert {line.key for line in made.ledger.lines(call.name, "effect") if line.pid == pid} == {"first"}


@two_ways
async def test_a_parked_unmarked_frame_whose_call_was_lost_never_speaks(
    made: FaultyFleet, router: str, trial: Trials, how: str
) -> None:
    """Told once, it stays lost."""
    call = trial("errand", UNMARKED)
    await call.begin(router)
    old = call.owner
    assert LOST in (await call.insist(await away(made, old, how))).text
    assert how == STOPPED or (await call.answer(made.url(old))).status == 503
    await back(made, old, how)
    await made.is_lost(call, made.url(old), ran=["first"])


@all_ways
async def test_a_running_reentrant_round_that_was_taken_over_is_fenced(
    made: FaultyFleet, router: str, trial: Trials, how: str
) -> None:
    """Both frames come to the same effect: only the owner's may run it. The old one is cancelled, and whoever waited
    for it hears the new owner or is sent away."""
    call = trial("errand", MARKED)
    await call.begin(router)
    old, pid = call.owner, made.nodes[call.owner].pid
    request = await made.at_its_gate(call, made.url(old))
    taken = call.insisting(await away(made, old, how))
    await made.ledger.has(call.name, "runs", 2)
    made.open(call.name)
    new = (await taken).headers["framehold-node"]
    if how != STOPPED:
        await made.ledger.has(call.name, "passed", 2)
    await back(made, old, how)
    result = await ended(request)
    if result is not None and not again(result):
        assert result.messages == [f"{call.name} two?"] and result.headers["framehold-node"] == new != old
    await made.ledger.has(call.name, "cancelled")
    await made.completes([call], made.url(old))
    ran = [line.key for line in made.ledger.lines(call.name, "effect") if line.pid == pid]
    assert ran == ["first", "second"]


@two_ways
async def test_a_running_unmarked_round_whose_call_was_lost_is_fenced(
    made: FaultyFleet, router: str, trial: Trials, how: str
) -> None:
    call = trial("errand", UNMARKED)
    await call.begin(router)
    old = call.owner
    request = await made.at_its_gate(call, made.url(old))
    assert LOST in (await call.insist(await away(made, old, how))).text
    made.open(call.name)
    if how != STOPPED:
        await made.ledger.has(call.name, "passed")
    await back(made, old, how)
    result = await ended(request)
    assert result is None or again(result) or LOST in result.text
    await made.ledger.has(call.name, "cancelled")
    await made.is_lost(call, made.url(old), ran=["first", "second"])
