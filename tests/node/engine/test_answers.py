"""Answers as a client may bring them: too many, too few, of the wrong shape, twice at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import SamplingMessage, TextContent

import framehold
from framehold.config import Settings
from tests.kit.client import Caller, Reply, accepted
from tests.kit.nodes import served
from tests.kit.processes import DEADLINE, until
from tests.kit.serving import Served, Word, said, serving

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
async def client() -> AsyncIterator[Served]:
    async with serving(three) as caller:
        yield caller


def good(asked: Reply) -> dict[str, Any]:
    """The right answer to each question of `three`."""
    by_method = {"elicitation/create": accepted(word="aye"), "roots/list": ROOTS, "sampling/createMessage": SAMPLE}
    return {key: by_method[question["method"]] for key, question in asked.asked.items()}


DONE = "aye file:///poems Onward"


async def test_answers_to_what_was_never_asked_are_ignored(client: Served) -> None:
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


async def test_a_malformed_answer_consumes_nothing(client: Served) -> None:
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

    async with serving(slow) as client:
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

    async with serving(slow) as client:
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


class InProcess(Caller):
    """A client in the caller's own task and context: what a handler has that calls another server of its process."""

    def __init__(self, url: str, app: Any) -> None:
        super().__init__(url)
        self._within = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app))
        self._http, self._unused = self._within, self._http

    async def __aexit__(self, *exit_: object) -> None:
        await self._unused.aclose()
        await super().__aexit__(*exit_)


async def test_a_call_within_a_call_asks_its_own_client_in_each_round() -> None:
    """A handler calls another attached server of its process: what the inner handler asks goes to the inner client,
    after a resume too, where the context of the carrying request is the outer handler's."""
    inner: MCPServer[Any] = MCPServer("inner")

    @inner.tool()
    async def twice() -> str:
        """Ask two questions, one after the other."""
        one = said(await framehold.ask("one", "inner one?", Word))
        return f"{one} {said(await framehold.ask('two', 'inner two?', Word))}"

    inside = framehold.asgi(inner, Settings(node_id="inner"))
    outer: MCPServer[Any] = MCPServer("outer")
    replies: list[Any] = []

    @outer.tool()
    async def step(ctx: Context) -> str:
        """Carry the inner call one round on."""
        async with InProcess(inner_url, inside) as client:
            if replies:
                last = replies[-1]
                answers = last.accept(word=f"w{len(replies)}")
                replies.append(await asyncio.wait_for(client.retry("twice", last.token, answers), DEADLINE))
            else:
                replies.append(await client.call("twice"))
        return "stepped"

    app = framehold.asgi(outer, Settings(node_id="outer"))
    async with served(inside) as inner_url, served(app) as url, Caller(url) as client:
        for _ in range(3):
            response = await client.call("step")
            assert response.result["resultType"] == "complete", f"the outer client is asked {response.messages}"
            assert response.text == "stepped"
    assert [reply.messages for reply in replies[:2]] == [["inner one?"], ["inner two?"]]
    assert replies[2].text == "w1 w2"
