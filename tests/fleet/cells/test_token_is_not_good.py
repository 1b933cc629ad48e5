"""Row 13: a token that expired, was forged, or is of another user, tool or arguments."""

from __future__ import annotations

import asyncio

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import Trials
from tests.kit.client import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


def turned_away(reply: Reply) -> bool:
    """Whether a request was refused in the SDK's own words."""
    return "error" in reply.message and (reply.code, reply.text) == (-32602, "Invalid or expired requestState")


@both
async def test_whatever_is_wrong_with_a_token_nothing_runs(
    made: FaultyFleet, router: str, trial: Trials, column: str
) -> None:
    """And the call is none the worse for it."""
    call, other = trial("errand", column), trial("errand", column)
    await call.begin(router)
    await other.begin(router)
    token, theirs = call.heard.token, other.heard.token
    before = made.ledger.lines()
    good = {"requestState": token, "inputResponses": call.heard.accept(word="x")}
    version, name, sealed = token.split(".", 2)
    middle = len(sealed) // 2
    changed = "B" if sealed[middle] == "A" else "A"
    forged = {
        "a changed byte": f"{version}.{name}.{sealed[:middle]}{changed}{sealed[middle + 1 :]}",
        "cut short": token[:-7],
        "under another call": f"{version}.{theirs.split('.')[1]}.{sealed}",
        "under no call": f"{version}.{'0' * 32}.{sealed}",
        "of another kind": f"s1.{sealed}",
        "nonsense": "h1.x.y",
        "another call's": theirs,
    }
    for url in (router, *(node.url for node in made.nodes.values())):
        for what, state in forged.items():
            assert turned_away(await call.send(url, {**good, "requestState": state})), what
        assert turned_away(await call.send(url, good, user="ben")), "another user"
        assert turned_away(await call.send(url, {**good, "name": f"talk_{column}"})), "another tool"
        elsewhere = {MARKED: UNMARKED, UNMARKED: MARKED}[column]
        assert turned_away(await call.send(url, {**good, "name": f"errand_{elsewhere}"})), "the other column's tool"
        assert turned_away(await call.send(url, {**good, "arguments": {"name": "x"}})), "other arguments"
    assert made.ledger.lines() == before
    assert await call.finish(router) == call.done and await other.finish(router) == other.done


@both
async def test_an_expired_token_is_refused_where_its_frame_was_and_elsewhere(
    made: FaultyFleet, router: str, trial: Trials, column: str
) -> None:
    """Its second is over; the handler never hears the answer."""
    call = trial("brief", column)
    await call.begin(router)
    # A token says in whole seconds when it ends: nothing tells that it has but the time.
    await asyncio.sleep(2.1)
    for url in (router, *(node.url for node in made.nodes.values())):
        assert turned_away(await call.answer(url))
    assert made.ledger.count(call.name, "entered") == 1 and made.ledger.count(call.name, "ended") == 0
