"""Row 12: a handler kills whatever node it runs on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from framehold_store import StoreConfig, open_store
from framehold_store.base import Store
from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial, Trials, again, ended
from tests.kit.client import Reply
from tests.kit.processes import DEADLINE

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CLAIMS = 5
"""docs/protocol.md, rule 15."""
ENDS = 4
"""docs/protocol.md, rule 27: the node that it began on, the one that took it over, and two that entered it alone."""


@asynccontextmanager
async def store_of(made: FaultyFleet) -> AsyncIterator[Store]:
    store = open_store(StoreConfig(made.redis.url, namespace=made.folder.name), time.time)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def is_paused(made: FaultyFleet, tool: str) -> bool:
    """Whether a tool is paused, by the store."""
    async with store_of(made) as store:
        return tool in {pause.tool for pause in (await store.tools()).paused}


async def resume(made: FaultyFleet, tool: str) -> None:
    """End the pause of a tool: nodes learn of it with their next heartbeats."""
    async with store_of(made) as store:
        await store.resume(tool)


async def begun(call: Trial, router: str) -> None:
    """Begin a call, once the nodes know that its tool is not paused any more."""
    async with asyncio.timeout(DEADLINE):
        while (await call.begin(router)).result.get("isError"):
            await asyncio.sleep(0.05)


async def struck(made: FaultyFleet, call: Trial, router: str) -> Reply | None:
    """Answer a call once; None if that killed nodes. A request may kill several, one after the other."""
    result = await ended(call.answering(router))
    if result is not None and not again(result):
        return result
    for name in [name for name, node in made.nodes.items() if not node.alive]:
        made.bury(name)
    if len(made.nodes) < 2:
        await made.successors(2)
    return None


async def test_a_reentrant_call_has_its_tool_paused_after_four_processes(
    made: FaultyFleet, router: str, trial: Trials
) -> None:
    """The call waits, and new ones are refused, until its tool is resumed."""
    call = trial("deadly", MARKED)
    await begun(call, router)
    while not await is_paused(made, call.tool):
        assert await struck(made, call, router) is None
    assert made.ledger.count(call.name, "entered") == ENDS
    waits = await call.answer(router)
    assert waits.status == 503 and "paused" in waits.text
    other = trial("deadly", MARKED)
    async with asyncio.timeout(DEADLINE):
        while not (result := await other.send(router, {})).result.get("isError"):
            await asyncio.sleep(0.05)
    assert "Nothing was started" in result.text
    assert made.ledger.count(call.name, "entered") == ENDS
    await resume(made, call.tool)


async def test_those_beside_it_are_not_paused(made: FaultyFleet, router: str, trial: Trials) -> None:
    """Calls of three other tools, which are answered again and again while it kills their nodes."""
    call = trial("deadly", MARKED)
    await begun(call, router)
    beside = [trial(shape, MARKED) for shape in ("errand", "talk", "changing") * 4]
    for other in beside:
        await other.begin_at_last(router)

    async def finished(other: Trial) -> float:
        began = time.monotonic()
        assert await other.finish(router, made.routers[1].url) == other.done
        return time.monotonic() - began

    finishing = asyncio.gather(*map(finished, beside))
    while not await is_paused(made, call.tool):
        assert await struck(made, call, router) is None
    print(f"the longest call beside it took {max(await finishing):.1f} s")
    assert not [other.tool for other in beside if await is_paused(made, other.tool)]
    await resume(made, call.tool)


async def test_a_reentrant_call_is_stuck_after_five_claims(made: FaultyFleet, router: str, trial: Trials) -> None:
    """The node that it began on and five more, however often its tool is resumed; then nobody tries again, and its
    client is told so."""
    call = trial("deadly", MARKED)
    await begun(call, router)
    while (result := await struck(made, call, router)) is None:
        assert made.ledger.count(call.name, "entered") <= 1 + CLAIMS
        await resume(made, call.tool)
    assert result.result["isError"] and "Several nodes failed while they ran this call" in result.text
    for url in (router, made.routers[1].url):
        assert (await call.insist(url)).text == result.text
    assert made.ledger.count(call.name, "entered") == 1 + CLAIMS


async def test_an_unmarked_call_kills_one_node(made: FaultyFleet, router: str, trial: Trials) -> None:
    call = trial("deadly", UNMARKED)
    await call.begin(router)
    while (result := await struck(made, call, router)) is None:
        pass
    assert result.result["isError"] and LOST in result.text
    await made.is_lost(call, router, ran=[])
