"""What `docs/migrating.md` shows is run as it stands there, with clients of both eras."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import ElicitResult, TextContent

from tests.kit.nodes import served
from tests.tutorials.person import Person

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).resolve().parents[3] / "docs" / "migrating.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
EXCEPT, SSE_ERA, REENTRANT, RESOLVE, FASTMCP = range(5)
YES = {"sure": True, "reason": "it was old", "value": True}


CHANGE = "app = framehold.asgi(mcp)\n"
"""The line of a program without which it is one of the SDK alone."""


def program(block: int, *, changed: bool = True) -> dict[str, Any]:
    """The names of a program of the page, which is a module of its own, with or without CHANGE."""
    assert BLOCKS[block].endswith(CHANGE)
    source = BLOCKS[block] if changed else BLOCKS[block].removesuffix(CHANGE)
    names: dict[str, Any] = {"__name__": f"migrating_{block}"}
    exec(compile(source, f"{PAGE}:{block}", "exec", dont_inherit=True), names)
    return names


async def told(block: int, mode: Any, action: Any = "accept") -> tuple[list[str], str]:
    """What a client of an era is asked by the program's tool, and told by it."""
    asked: list[str] = []

    async def answer(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        wanted = params.requested_schema["properties"]
        text = {name: YES[name] for name in wanted}
        return ElicitResult(action=action, content=text if action == "accept" else None)

    async with served(program(block)["app"]) as url, Client(url, mode=mode, elicitation_callback=answer) as client:
        result = await client.call_tool("delete", {"name": "poem"})
    (text,) = result.content
    assert isinstance(text, TextContent)
    return asked, text.text


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("block", [SSE_ERA, REENTRANT, FASTMCP])
async def test_three_ways_to_write_a_tool_are_one_to_its_client(block: int, mode: str) -> None:
    assert await told(block, mode) == (["Delete poem?"], "poem was deleted.")
    assert await told(block, mode, "decline") == (["Delete poem?"], "poem was kept.")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_resolver_and_an_await_in_one_tool(mode: str) -> None:
    assert await told(RESOLVE, mode) == (["Delete poem?", "For the record: why?"], "poem was deleted: it was old.")


UNCONFIRMED = "poem was deleted. Nobody was asked."
CONFIRMED = "poem was deleted."


@pytest.mark.parametrize(
    ("changed", "mode", "asks", "shown"),
    [
        (False, "auto", True, UNCONFIRMED),
        (False, "auto", False, UNCONFIRMED),
        (False, "legacy", True, CONFIRMED),
        (False, "legacy", False, UNCONFIRMED),
        (True, "auto", True, CONFIRMED),
        (True, "auto", False, -32021),
        (True, "legacy", True, CONFIRMED),
        (True, "legacy", False, UNCONFIRMED),
    ],
)
async def test_who_goes_on_unconfirmed(changed: bool, mode: Any, asks: bool, shown: str | int) -> None:
    """The page's table of a tool that takes each error for "the client can't ask". On 2026-07-28 the SDK's own app
    raises it for a client that can; Framehold asks that one, and lets the tool catch nothing for one that can't."""
    names = program(EXCEPT, changed=changed)
    owner = Person([ElicitResult(action="accept", content={"sure": True})])
    app = names["app"] if changed else names["mcp"].streamable_http_app()
    answer = owner.elicit if asks else None
    async with served(app) as url, Client(url, mode=mode, elicitation_callback=answer) as client:
        try:
            found: Any = (await client.call_tool("delete", {"name": "poem"})).content[0]
            assert found.text == shown
        except MCPError as error:
            assert error.error.code == shown
    assert owner.asked == (["Delete poem?"] if shown == CONFIRMED else [])


def test_every_program_of_the_page_is_run() -> None:
    assert len(BLOCKS) == 5
