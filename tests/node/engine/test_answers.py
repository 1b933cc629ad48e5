"""Answers as a client may bring them: too many, too few, of the wrong shape, twice at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.server.mcpserver import Context
from mcp.types import SamplingMessage, TextContent

import framehold
from tests.node.stage import Stage, Word, said, stage
from tests.processes import until
from tests.wire import Reply, accepted

pytestmark = pytest.mark.anyio

ROOTS = {"roots": [{"uri": "file:///poems"}]}
SAMPLE = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "Onward"}}
PROMPT = [SamplingMessage(role="user", content=TextContent(type="text", text="A motto?"))]


async def three(ctx: Context) -> str:
    """Ask three things of three kinds in one round, each by its own key."""
    word, roots, motto = await asyncio.gather(
        framehold.ask("word", "Which word?", Word),
        ctx.session.list_roots(),
        ctx.session.create_message(PROMPT, max_tokens=9),
    )
    assert isinstance(motto.content, TextContent)
    return f"{said(word)} {roots.roots[0].uri} {motto.content.text}"


@pytest.fixture
async def client() -> AsyncIterator[Stage]:
    async with stage(three) as caller:
        yield caller


def good(asked: Reply) -> dict[str, Any]:
    """The right answer to each question of `three`."""
    by_method = {"elicitation/create": accepted(word="aye"), "roots/list": ROOTS, "sampling/createMessage": SAMPLE}
    return {key: by_method[question["method"]] for key, question in asked.asked.items()}


DONE = "aye file:///poems Onward"


async def test_answers_to_what_was_never_asked_are_ignored(client: Stage) -> None:
    asked = await client.call("three")
    extras = {"never": accepted(word="no"), "": ROOTS, "malformed": 12345, "\u2028 word": None, "__class__": []}
    again = await client.retry("three", asked.token, extras)
    assert again.asked == asked.asked
    assert client.runtime.counts["resumed"] == 0
    done = await client.retry("three", again.token, {**extras, **good(asked)})
    assert done.text == DONE
    assert (await client.retry("three", asked.token, good(asked))).text == DONE


MALFORMED: dict[str, Any] = {
    "a number": 12345,
    "null": None,
    "a text": "accept",
    "a list": [],
    "empty": {},
    "no such action": {"action": "agree"},
    "content a text": {"action": "accept", "content": "aye"},
    "content nested": {"action": "accept", "content": {"word": {"of": "honour"}}},
    "action a list": {"action": ["accept"]},
    "roots": ROOTS,
    "a sample": SAMPLE,
}


async def test_a_malformed_answer_consumes_nothing(client: Stage) -> None:
    """-32602 that names its key; the good answers beside it are not taken either, and may still change."""
    asked = await client.call("three")
    for name, raw in MALFORMED.items():
        result = await client.retry("three", asked.token, {**good(asked), "word": raw})
        assert (result.status, result.code) == (400, -32602), name
        assert "'word'" in result.text and "malformed" in result.text, name
    keys = {question["method"]: key for key, question in asked.asked.items()}
    wrong = {keys["roots/list"]: accepted(word="x"), keys["sampling/createMessage"]: ROOTS}
    for key, raw in wrong.items():
        result = await client.retry("three", asked.token, {**good(asked), key: raw})
        assert (result.status, result.code) == (400, -32602)
        assert key in result.text
    assert client.runtime.counts["resumed"] == 0
    assert (await client.retry("three", asked.token, {})).asked == asked.asked
    assert (await client.retry("three", asked.token, good(asked))).text == DONE


async def test_duplicates_at_once_are_one_execution() -> None:
    go_on, resumed = asyncio.Event(), asyncio.Event()

    async def slow(ctx: Context) -> str:
        word = said(await ctx.elicit("first?", Word))
        resumed.set()
        await go_on.wait()
        return word + said(await ctx.elicit("second?", Word))

    async with stage(slow) as client:
        asked = await client.call("slow")
        answers = asked.accept(word="a")
        retries = [asyncio.ensure_future(client.retry("slow", asked.token, answers)) for _ in range(20)]
        (slot,) = client.runtime.table
        await until(lambda: len(slot.call.waiting) == 20, "all duplicates to wait")
        conflict = await client.retry("slow", asked.token, asked.accept(word="b"))
        assert (conflict.status, conflict.code) == (400, -32602)
        assert conflict.message["error"]["data"] == {"reason": "answers_conflict"}
        go_on.set()
        reply = await asyncio.gather(*retries)
        assert client.runtime.counts["resumed"] == 1
        assert {tuple(one.asked) for one in reply} == {tuple(reply[0].asked)}
        assert len({one.message["id"] for one in reply}) == 20
        answers = reply[0].accept(word="z")
        done = await asyncio.gather(*(client.retry("slow", one.token, answers) for one in reply))
        assert {one.text for one in done} == {"az"}
        assert (client.runtime.counts["entered"], client.runtime.counts["resumed"]) == (1, 2)


async def test_other_answers_at_once() -> None:

    async def slow(ctx: Context) -> str:
        return said(await ctx.elicit("which?", Word))

    async with stage(slow) as client:
        for _ in range(5):
            asked = await client.call("slow")
            words = ("a", "b", "c")
            reply = await asyncio.gather(
                *(client.retry("slow", asked.token, asked.accept(word=word)) for word in words)
            )
            won = [one.text for one in reply if "result" in one.message]
            lost = [one for one in reply if "error" in one.message]
            assert len(won) == 1 and won[0] in words
            assert {one.message["error"]["data"]["reason"] for one in lost} == {"answers_conflict"}
        assert client.runtime.counts["resumed"] == 5
