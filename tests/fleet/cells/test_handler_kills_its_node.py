"""Row 12: a handler kills whatever node it runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from framehold_store.keys import Keys
from tests.fleet.faults import MARKED, UNMARKED, FaultyFleet
from tests.fleet.trial import LOST, Trial, again, ended
from tests.processes import DEADLINE
from tests.wire import Reply

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

CLAIMS = 5
"""docs/protocol.md, rule 15."""
ENDS = 3
"""docs/protocol.md, rule 27."""


def is_paused(made: FaultyFleet, tool: str) -> bool:
    """Whether a tool is paused, by the store."""
    with made.redis.client() as client:
        return bool(client.hget(Keys(made.folder.name).tools, f"p:{tool}"))


def resume(made: FaultyFleet, tool: str) -> None:
    """End the pause of a tool: nodes learn of it with their next heartbeats."""
    with made.redis.client() as client:
        client.hset(Keys(made.folder.name).tools, mapping={f"p:{tool}": "", f"d:{tool}": ""})


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


async def test_a_reentrant_call_has_its_tool_paused_after_three_processes(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """The node that it began on and two more. The call waits, and new ones are refused, until it is resumed."""
    call = trial("deadly", MARKED)
    await call.begin(router)
    while not is_paused(made, call.tool):
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
    resume(made, call.tool)


async def test_a_reentrant_call_is_stuck_after_five_claims(
    made: FaultyFleet, router: str, trial: Callable[..., Trial]
) -> None:
    """The node that it began on and five more, however often its tool is resumed; then nobody tries again, and its
    client is told so."""
    call = trial("deadly", MARKED)
    await call.begin(router)
    while (result := await struck(made, call, router)) is None:
        assert made.ledger.count(call.name, "entered") <= 1 + CLAIMS
        resume(made, call.tool)
    assert result.result["isError"] and "Several nodes failed while they ran this call" in result.text
    for url in (router, made.routers[1].url):
        assert (await call.insist(url)).text == result.text
    assert made.ledger.count(call.name, "entered") == 1 + CLAIMS


async def test_an_unmarked_call_kills_one_node(made: FaultyFleet, router: str, trial: Callable[..., Trial]) -> None:
    """It is entered once."""
    call = trial("deadly", UNMARKED)
    await call.begin(router)
    while (result := await struck(made, call, router)) is None:
        pass
    assert result.result["isError"] and LOST in result.text
    assert made.ledger.count(call.name, "entered") == 1
