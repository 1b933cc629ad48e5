"""A node tells routers about each of its tools: what it has counted, and what is parked now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from framehold.admin import tool_list
from tests.node.operating import TOKEN, Operator, marked, unmarked
from tests.node.stage import Stage, stage

pytestmark = pytest.mark.anyio


async def fails() -> str:
    """Raises."""
    raise ValueError


@pytest.fixture
async def played() -> AsyncIterator[tuple[Stage, Operator]]:
    async with stage(marked, unmarked, fails, admin_token=TOKEN) as made, Operator(made.url) as operator:
        yield made, operator


async def told(operator: Operator) -> dict[str, Any]:
    answer = await operator.ask("GET", "tools")
    assert answer.status == 200, answer
    return {tool["tool"]: tool for tool in answer.json["tools"]}


async def test_each_tool_is_told_with_what_is_parked(played: tuple[Stage, Operator]) -> None:
    """Also one that nobody has called."""
    made, operator = played
    first = await made.call("marked")
    for _ in range(2):
        await made.call("unmarked")
    await made.call("fails")
    tools = await told(operator)
    assert {"marked", "unmarked", "fails", "resources/read", "other"} == set(tools)
    assert (tools["unmarked"]["parked"], tools["unmarked"]["asked"]) == (2, 2)
    assert sum(tools["unmarked"]["expiring"]) == 2 and tools["fails"]["expiring"] == []
    assert tools["marked"]["journal"] > 0 and tools["marked"]["oldest"] >= 0
    assert (tools["fails"]["failed"], tools["fails"]["parked"], tools["fails"]["oldest"]) == (1, 0, None)
    assert sum(tools["unmarked"]["took"]) == 2 and sum(tools["marked"]["thought"]) == 0
    second = await made.retry("marked", first.token, first.accept(word="a"))
    await made.retry("marked", second.token, second.accept(word="b"))
    after = (await told(operator))["marked"]
    assert (after["asked"], after["ended"], after["parked"]) == (2, 1, 0)
    assert sum(after["took"]) == 3 and sum(after["thought"]) == 2


async def test_a_malformed_answer_counts_as_refused(played: tuple[Stage, Operator]) -> None:
    made, operator = played
    first = await made.call("unmarked")
    wrong = await made.retry("unmarked", first.token, {key: {"action": "perhaps"} for key in first.accept(word="a")})
    assert wrong.code == -32602
    assert (await told(operator))["unmarked"]["refused"] == 1


async def test_a_name_that_is_no_label_goes_with_the_others(played: tuple[Stage, Operator]) -> None:
    """A client may have chosen it."""
    made, _ = played
    await made.call("marked")
    found = await tool_list._parked(made.runtime, {"unmarked"})
    assert {name: now.parked for name, now in found.items()} == {"other": 1}
