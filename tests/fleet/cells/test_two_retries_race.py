"""Row 11: two retries of one round race."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial, again, ended
from tests.wire import Heard

pytestmark = pytest.mark.anyio

both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


@both
async def test_at_one_node_the_same_answers_join_and_others_conflict(
    made: FaultyFleet, trial: Callable[..., Trial], column: str
) -> None:
    """Through either router: one round runs, all who bring its answers hear its reply."""
    routers = [router.url for router in made.routers]
    call = trial("errand", column)
    made.shut(call.name)
    await call.begin(routers[0])
    requests = [call.answering(routers[number % 2]) for number in range(8)]
    await made.ledger.has(call.name, "runs")
    for url in routers:
        assert (await call.answer(url, word="other")).code == -32602
    late = call.answering(routers[1])
    made.open(call.name)
    for told in await asyncio.gather(*requests, late):
        assert told.messages == [f"{call.name} two?"]
    assert (await call.answer(routers[0], word="other")).code == -32602
    assert await call.finish(*routers) == call.done
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
    assert made.ledger.count(call.name, "entered") == 1


@pytest.mark.parametrize("said", [{}, {"word": "other"}], ids=["same answers", "other answers"])
@both
async def test_at_the_old_and_the_new_owner_one_answer_counts(
    made: FaultyFleet, trial: Callable[..., Trial], column: str, said: dict[str, str]
) -> None:
    """The old owner wakes with a retry in its socket just when another node claims the call: whoever is first, all
    hear the same, or that other answers stand."""
    call = trial("errand", column)
    await call.begin(made.url(made.other()))
    old = call.owner
    made.pause(old)
    await made.lapsed(old)
    at_old = call.answering(made.url(old))
    # The request is in the socket before the race begins.
    await asyncio.sleep(0.05)
    made.nodes[old].resume()
    at_new = call.answering(made.url(made.other(old)), **said)
    told = [heard for request in (at_old, at_new) if (heard := await ended(request)) is not None]
    answered = [heard for heard in told if "result" in heard.message]
    conflicts = [heard for heard in told if "error" in heard.message and not again(heard)]
    assert all(heard.code == -32602 for heard in conflicts)
    assert not conflicts or said, "the same answers never conflict"
    assert len({_told(heard) for heard in answered}) <= 1
    await _settled(made, call, said)


def _told(heard: Heard) -> str:
    """What a client makes of a reply."""
    return str(heard.messages if "inputRequests" in heard.result else heard.text)


async def _settled(made: FaultyFleet, call: Trial, said: dict[str, str]) -> None:
    """The call ends with one of the answers, or as lost, and with each effect once."""
    urls = [node.url for node in made.nodes.values()]
    heard = await call.insist(*urls)
    if "error" in heard.message:
        assert said and heard.code == -32602
        heard = await call.answer(urls[0], **said)
        assert heard.status == 200
        call.heard = heard if "inputRequests" in heard.result else call.heard
    if heard.result.get("isError"):
        assert call.tool.endswith(UNMARKED) and LOST in heard.text
        assert made.ledger.effects(call.name) == ["first"]
        return
    told = await call.finish(*urls)
    assert told in (call.done, call.done.replace("<one>", said.get("word", "<one>")))
    assert made.ledger.effects(call.name) == ["first", "second", "third", "fourth"]
