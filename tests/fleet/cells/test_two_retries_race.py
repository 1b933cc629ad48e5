"""Row 11: two retries of one round race."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fleet.faults import EFFECTS, MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial, Trials, again, ended
from tests.kit.client import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


@both
async def test_at_one_node_the_same_answers_join_and_others_conflict(
    made: FaultyFleet, trial: Trials, column: str
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
    for result in await asyncio.gather(*requests, late):
        assert result.messages == [f"{call.name} two?"]
    assert (await call.answer(routers[0], word="other")).code == -32602
    await made.completes([call], *routers, entered=1)


@pytest.mark.parametrize("text", [{}, {"word": "other"}], ids=["same answers", "other answers"])
@both
async def test_at_the_old_and_the_new_owner_one_answer_counts(
    made: FaultyFleet, trial: Trials, column: str, text: dict[str, Any]
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
    at_new = call.answering(made.url(made.other(old)), **text)
    result = [reply for request in (at_old, at_new) if (reply := await ended(request)) is not None]
    answered = [reply for reply in result if "result" in reply.message]
    conflicts = [reply for reply in result if "error" in reply.message and not again(reply)]
    assert all(reply.code == -32602 for reply in conflicts)
    assert not conflicts or text, "the same answers never conflict"
    assert len({_told(reply) for reply in answered}) <= 1
    await _settled(made, call, text)


def _told(reply: Reply) -> str:
    """What a client makes of a reply."""
    return str(reply.messages if "inputRequests" in reply.result else reply.text)


async def _settled(made: FaultyFleet, call: Trial, text: dict[str, Any]) -> None:
    """The call ends with one of the answers, or as lost, and with each effect once."""
    urls = [node.url for node in made.nodes.values()]
    reply = await call.insist(*urls)
    if "error" in reply.message:
        assert text and reply.code == -32602
        reply = await call.answer(urls[0], **text)
        assert reply.status == 200
        call.heard = reply if "inputRequests" in reply.result else call.heard
    if reply.result.get("isError"):
        assert call.tool.endswith(UNMARKED) and LOST in reply.text
        assert made.ledger.effects(call.name) == ["first"]
        return
    result = await call.finish(*urls)
    assert result in (call.done, call.done.replace("<one>", text.get("word", "<one>")))
    assert made.ledger.effects(call.name) == EFFECTS
