"""Row 8: the store is unreachable: killed and started again with what it kept, or paused."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx2
import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet, standing
from tests.fleet.trial import Trials
from tests.kit.client import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

both = pytest.mark.parametrize("column", [MARKED, UNMARKED])


@pytest.fixture(scope="module")
def roomy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyFleet]:
    """A node with a lease that outlasts any of these pauses."""
    with standing(tmp_path_factory.mktemp("roomy"), 1, 0, lease_ttl="30") as made:
        yield made


def refused(reply: Reply) -> bool:
    """Whether a request was sent away as docs/guarantees.md has it."""
    assert (reply.status, reply.code) == (503, -32603), reply.message
    return int(reply.headers["retry-after"]) >= 1


@both
async def test_inside_the_window_a_parked_call_finishes_and_a_new_park_keeps_its_frame(
    roomy: FaultyFleet, trial: Trials, column: str
) -> None:
    """With the store paused: an outcome leaves, a question does not; the retry that asks for it joins the same frame,
    and its answer is not taken twice."""
    (node,) = roomy.nodes.values()
    last, middle = trial("talk", column), trial("talk", column)
    await last.begin(node.url)
    await last.insist(node.url)
    await middle.begin(node.url)
    with roomy.redis.paused():
        assert await last.finish(node.url) == last.done
        assert refused(await middle.answer(node.url)) and refused(await middle.answer(node.url))
    assert (await middle.insist(node.url)).messages == [f"{middle.name} two?"]
    assert await middle.finish(node.url) == middle.done
    assert await last.finish(node.url) == last.done, "the outcome was written when the store was back"
    assert [roomy.ledger.count(call.name, "entered") for call in (last, middle)] == [1, 1]
    assert roomy.record(middle.heard.token)["epoch"] == "1", "nothing lapsed"


@both
async def test_after_the_window_everything_waits_and_then_goes_on(
    made: FaultyFleet, router: str, trial: Trials, column: str
) -> None:
    """No answer is taken, no handler is entered for a call that can't be kept; afterwards the frames are verified. The
    node is not ready, and alive: nobody should start it again."""
    call, fresh = trial("errand", column), trial("errand", column)
    await call.begin(router)
    with made.redis.paused():
        await made.ready(call.owner, False)
        assert httpx2.get(f"{made.nodes[call.owner].root}/healthz").status_code == 200
        assert refused(await call.answer(router))
        assert refused(await fresh.begin(router))
        assert made.ledger.effects(call.name) == ["first"] and made.ledger.effects(fresh.name) == []
    await made.completes([call], router, entered=1)


@both
async def test_killed_and_started_again_with_its_append_only_file(
    made: FaultyFleet, router: str, trial: Trials, column: str
) -> None:
    """Calls in every round go on where they were, in the frames that they had."""
    calls = [trial("errand", column) for _ in range(6)]
    await asyncio.gather(*(call.begin(router) for call in calls))
    await asyncio.gather(*(call.insist(router) for call in calls[:3]))
    made.kill_store()
    asked = [call.answering(router) for call in calls]
    await asyncio.sleep(0.1)
    made.restore()
    await asyncio.gather(*asked, return_exceptions=True)
    await made.completes(calls, router, entered=1)


async def test_killed_store_and_node_together(made: FaultyFleet, router: str, trial: Trials) -> None:
    """All that is left of the call is the store's file."""
    call = trial("errand", MARKED)
    await call.begin(router)
    made.kill_store()
    made.kill(call.owner)
    made.restore()
    await made.completes([call], router)
