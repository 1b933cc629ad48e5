"""The store takes no writes for longer than a lease lasts: it is full, or does not answer. All nodes live on.

Routers go on to send requests to the nodes. The nodes serve what needs no store, and refuse the rest with the cause.
"""

from __future__ import annotations

import asyncio

import pytest

from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import Trials
from tests.kit.client import Reply
from tests.kit.fleet import RouterProcess
from tests.kit.processes import DEADLINE

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]


def refused(reply: Reply) -> str:
    """The cause that a refused client gets."""
    assert (reply.status, reply.code) == (503, -32603), reply.message
    assert int(reply.headers["retry-after"]) >= 1
    text: str = reply.message["error"]["message"]
    return text


async def unheard(made: FaultyFleet, router: RouterProcess, store: str) -> None:
    """Wait until no node has a valid lease, and each answers the router that its store is `store`."""
    for name in made.nodes:
        await made.ready(name, False)
    async with asyncio.timeout(DEADLINE):
        while True:
            found = {node["node_id"]: (node["state"], node["store"]) for node in await router.nodes()}
            if found == dict.fromkeys(made.nodes, ("lapsed", store)):
                return
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("store", ["full", "silent"])
@pytest.mark.parametrize("column", [MARKED, UNMARKED])
async def test_what_needs_no_store_is_served_through_a_router_and_the_rest_waits(
    made: FaultyFleet, trial: Trials, store: str, column: str
) -> None:
    """A parked call reaches its own node, which refuses it, and it goes on in its frame when the outage is over. A node
    that dies meanwhile is seen no more."""
    router = made.routers[0]
    # What was done to this fleet before is told for an hour.
    old = {problem["kind"] for problem in (await router.overview())["problems"]}
    parked, fresh = trial("errand", column), trial("errand", column)
    await parked.begin(router.url)
    made.fill_store() if store == "full" else made.redis.pause()
    await unheard(made, router, store)
    made.kill(made.other(parked.owner))
    for _ in range(2 * len(made.nodes)):
        assert (await fresh.greet(router.url)).text == f"{fresh.name}: hello"
    await router.knows(*made.nodes)
    for _ in range(2 * len(made.nodes)):
        assert (await fresh.greet(router.url)).text == f"{fresh.name}: hello"
    cause = refused(await fresh.begin(router.url))
    assert "this tool may ask or run an effect, which needs the store" in cause
    assert ("the store is full" in cause) is (store == "full")
    answer = await parked.answer(router.url)
    assert refused(answer) and answer.headers["framehold-node"] == parked.owner
    told = (await router.overview())["problems"]
    problems = {problem["kind"]: problem["text"] for problem in told if problem["kind"] not in old}
    if "got no processor" in problems.get("loop_stood", ""):
        # No code held the loop: the process waited for a core of a busy machine.
        del problems["loop_stood"]
    assert list(problems) == [f"store_{store}"], problems
    assert "no node can write" in problems[f"store_{store}"]
    assert ", ".join(sorted(made.nodes)) in problems[f"store_{store}"]
    made.restore()
    await made.completes([parked], router.url, entered=1)
    await fresh.begin_at_last(router.url)
    await made.completes([fresh], router.url)
