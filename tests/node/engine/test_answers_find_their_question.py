"""An answer reaches the question that its client was shown, and no other; and each question can be asked again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from framehold.engine.replies import Ended, Parked
from framehold.frame.asks import Question
from framehold.frame.frame import Frame
from tests.node.desk import Desk, desk, question, texts, turns
from tests.node.nodes import served
from tests.node.stage import Word, said
from tests.processes import until
from tests.wire import EVERYTHING, Caller

pytestmark = pytest.mark.anyio

PATIENCE = 30.0
"""Seconds in which anything here is answered."""


@pytest.fixture
async def at() -> AsyncIterator[Desk]:
    async with desk() as opened:
        yield opened


def _number(raw: Any) -> int:
    if not isinstance(raw, int):
        raise ValueError("a number is wanted")
    return raw


NUMBER = Question("roots", {"asks": "How many accounts?"}, "f" * 16, _number)


class Wavering:
    """A handler that gives its question up when it is told to, and asks another under the same key; beside it, a
    second question waits."""

    def __init__(self, then: Question) -> None:
        self._then = then
        self.give_up, self.asks_again = asyncio.Event(), asyncio.Event()

    async def __call__(self, frame: Frame) -> str:
        return " ".join(await asyncio.gather(self._waver(frame), frame.ask(question("B"), "b")))

    async def _waver(self, frame: Frame) -> str:
        first = asyncio.ensure_future(frame.ask(question("Delete the draft?"), "confirm"))
        await self.give_up.wait()
        first.cancel()
        await asyncio.wait([first])
        self.asks_again.set()
        return f"new:{await frame.ask(self._then, 'confirm')}"

    async def change_its_mind(self) -> None:
        self.give_up.set()
        await self.asks_again.wait()
        await turns(10)


@pytest.mark.parametrize(("then", "answer"), [(question("Delete the account?"), "no"), (NUMBER, 3)])
async def test_an_answer_taken_earlier_never_reaches_another_question(at: Desk, then: Question, answer: Any) -> None:
    """The handler gave the question up after it was answered, and asks another under its key, of the same kind or of
    another: that one is put to the client like any new question."""
    script = Wavering(then)
    first = await at.parked(script)
    second = await at.retry(first, {"confirm": "yes"})
    assert texts(second) == ["B"]
    await script.change_its_mind()
    third = await at.retry(second, {"b": "b"})
    assert isinstance(third, Parked), third
    assert texts(third) == [then.wire["asks"]]
    assert await at.retry(third, {"confirm": answer}) == Ended(f"new:{answer} b")


async def test_a_question_asked_again_shows_its_own_text(at: Desk) -> None:
    """A round that repeats a question whose answer was missing shows what its journal says, not what the handler asks
    under that key by now; and what a client answers is not asked again."""
    script = Wavering(question("Delete the account?"))
    reply = await at.parked(script)
    await script.change_its_mind()
    reply = await at.retry(reply, {"b": "b"})
    answered: list[str] = []
    while isinstance(reply, Parked):
        slot = at.runtime.table.get(reply.call)
        assert slot is not None
        shown = texts(reply)
        assert [ask.fp for ask in slot.call.asks] == [question(text).fp for text in shown], shown
        assert shown and not set(shown) & set(answered), "what was answered is asked once more"
        answered += shown
        reply = await at.retry(reply, {key: wire["asks"] for key, wire in reply.questions.items()})
    assert reply == Ended("new:Delete the account? b")


@pytest.mark.parametrize("key", [None, "again"])
async def test_an_answered_question_can_be_asked_again_at_once(at: Desk, key: str | None) -> None:
    """Also where whoever asked it first has not resumed yet: it is answered, hence no duplicate."""

    async def swift(frame: Frame) -> str:
        await frame.ask(question("B"))
        return str(await frame.ask(question("A"), key))

    async def script(frame: Frame) -> str:
        return " ".join(await asyncio.gather(swift(frame), frame.ask(question("A"), key)))

    first = await at.parked(script)
    assert texts(first) == ["B", "A"]
    second = await at.retry(first, dict(zip(first.questions, ("b", "first"), strict=True)))
    assert isinstance(second, Parked) and texts(second) == ["A"], second
    assert await at.retry(second, dict.fromkeys(second.questions, "second")) == Ended("second first")


@pytest.mark.parametrize("lead", range(1, 9))
async def test_a_round_that_asks_nothing_is_not_parked(at: Desk, lead: int) -> None:
    """A branch asks while its call is parked and gives up at once, whatever its timing to the retry: no reply says that
    input is required without saying which."""
    go_on = asyncio.Event()

    async def brief(frame: Frame) -> None:
        await go_on.wait()
        asked = asyncio.ensure_future(frame.ask(question("brief")))
        await turns(2)
        asked.cancel()

    async def script(frame: Frame) -> str:
        branch = asyncio.ensure_future(brief(frame))
        first = await frame.ask(question("first"))
        await turns(20)
        await branch
        return f"{first} {await frame.ask(question('second'))}"

    reply: Any = await at.parked(script)
    go_on.set()
    await turns(lead)
    rounds = 0
    while isinstance(reply, Parked):
        rounds += 1
        assert reply.questions and rounds < 5, f"round {reply.at.round} asks {texts(reply)}"
        answers = {key: wire["asks"] for key, wire in reply.questions.items()}
        reply = await asyncio.wait_for(at.retry(reply, answers), PATIENCE)
    assert reply == Ended("first second")


async def test_an_answer_nested_too_deep_leaves_no_slot_behind(at: Desk) -> None:
    """Whatever is said of it: nothing is kept for a call that this node doesn't hold."""

    async def script(frame: Frame) -> object:
        return await frame.ask(question("A"))

    parked = await at.parked(script)
    assert await at.retry(parked, dict.fromkeys(parked.questions, "a")) == Ended("a")
    await until(lambda: len(at.runtime.table) == 0, "the end of the call")
    deep: Any = 1
    for _ in range(5000):
        deep = {"a": deep}
    with contextlib.suppress(Exception):
        await asyncio.wait_for(at.retry(parked, dict.fromkeys(parked.questions, deep)), PATIENCE)
    await until(lambda: len(at.runtime.table) == 0, "the end of the retry", PATIENCE)


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
                replies.append(await asyncio.wait_for(client.retry("twice", last.token, answers), PATIENCE))
            else:
                replies.append(await client.call("twice"))
        return "stepped"

    app = framehold.asgi(outer, Settings(node_id="outer"))
    async with served(inside) as inner_url, served(app) as url, Caller(url, EVERYTHING) as client:
        for _ in range(3):
            response = await client.call("step")
            assert response.result["resultType"] == "complete", f"the outer client is asked {response.messages}"
            assert response.text == "stepped"
    assert [reply.messages for reply in replies[:2]] == [["inner one?"], ["inner two?"]]
    assert replies[2].text == "w1 w2"
