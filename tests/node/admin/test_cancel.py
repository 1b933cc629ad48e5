"""An operator cancels a call, or drops its frame: what its client hears, here and elsewhere, and when it can't be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import SecretStr

import framehold
from framehold.admin import actions
from framehold.config import Settings
from framehold_core.ids import CallId
from framehold_core.requests import Read, RecordState, Request
from framehold_store.base import Done
from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, served
from tests.kit.operators import TOKEN, Node, Operator, call_of, marked, noted, pair, unmarked
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio
SETTINGS: dict[str, Any] = {"admin_token": TOKEN, "keys": (KEY,)}
TOLD = "An operator cancelled this call. Its handler was stopped where it stood"


class Ran:
    """What handlers of this test did, and what they wait for."""

    def __init__(self) -> None:
        self.entered: list[str] = []
        self.stopped: list[str] = []
        self.goes_on = asyncio.Event()


@pytest.fixture
async def ran() -> Ran:
    return Ran()


@pytest.fixture
async def at(ran: Ran) -> AsyncIterator[Served]:
    async def effect() -> str:
        ran.entered.append("effect")
        await ran.goes_on.wait()
        return "done"

    @framehold.reentrant
    async def tries(ctx: Context) -> str:
        """Asks, runs an effect, asks again; notes its end."""
        ran.entered.append("tries")
        try:
            await ctx.elicit("one?", Word)
            await framehold.once("effect", effect)
            return said(await ctx.elicit("two?", Word))
        except asyncio.CancelledError:
            ran.stopped.append("tries")
            raise

    async def runs() -> str:
        """Runs on and never asks."""
        ran.entered.append("runs")
        await ran.goes_on.wait()
        return "never"

    async with serving(tries, runs, marked, unmarked, **SETTINGS) as it:
        yield it


@pytest.fixture
async def operator(at: Served) -> AsyncIterator[Operator]:
    async with Operator(at.url) as it:
        yield it


def answered(at: Served, tool: str, held: Reply) -> Any:
    return at.retry(tool, held.token, held.accept(word="x"))


async def test_a_cancelled_call_ends_with_an_error_that_its_client_hears_again_and_again(
    at: Served, operator: Operator, ran: Ran
) -> None:
    held, happened = await at.call("tries"), noted(at.runtime)
    answer = await operator.cancel(call_of(held.token))
    assert answer.status == 200 and "was cancelled; its client is told so" in answer.text
    await until(lambda: ran.stopped, "the handler's end")
    for _ in range(2):
        reply = await answered(at, "tries", held)
        assert reply.result["isError"] and reply.text.startswith(TOLD)
        assert reply.result["_meta"]["framehold/reason"] == "cancelled"
    assert ran.entered == ["tries"] and at.runtime.table.frames == 0
    again = await operator.cancel(call_of(held.token))
    assert again.status == 404 and call_of(held.token) not in again.text
    ((kind, text, *about),) = happened.events
    assert (kind, about) == ("cancelled", [call_of(held.token)[:8], "tries"])
    token = at.runtime.peers.trust.credential(SecretStr(TOKEN))
    assert text.startswith(f"an operator (admin token {token}) cancelled the call") and TOKEN not in text
    stored = (await at.runtime.store.run(Read(CallId(call_of(held.token))))).stored
    assert stored is not None and (stored.record.state, stored.record.cause) == (RecordState.DONE, "cancelled")


async def test_whoever_waits_for_a_round_that_is_cancelled_hears_it_at_once(
    at: Served, operator: Operator, ran: Ran
) -> None:
    """Also in round 1, of which nothing is stored."""
    waiting = asyncio.create_task(at.call("runs"))
    await until(lambda: ran.entered, "the handler's start")
    (call,) = [item["call_id"] for item in (await operator.leases())["items"]]
    assert (await operator.cancel(call)).status == 200
    reply = await waiting
    assert reply.result["isError"] and reply.text.startswith(TOLD)
    assert (await operator.leases())["total"] == 0


async def test_neither_is_done_while_an_effect_runs(at: Served, operator: Operator, ran: Ran) -> None:
    """What it does would be nobody's; once it is through, both are."""
    held = await at.call("tries")
    call, waiting = call_of(held.token), asyncio.create_task(answered(at, "tries", held))
    await until(lambda: "effect" in ran.entered, "the effect")
    for refused in (await operator.cancel(call), await operator.evict(call)):
        assert refused.status == 409 and "nothing was done; try again in a moment" in refused.text
    ran.goes_on.set()
    second = await waiting
    assert second.messages == ["two?"]
    assert (await operator.evict(call)).status == 200
    assert (await answered(at, "tries", second)).text == "x"
    assert ran.entered == ["tries", "effect", "tries"]


async def test_an_evicted_call_is_replayed_by_its_next_retry(at: Served, operator: Operator) -> None:
    held = await at.call("marked", arguments={"name": "Bo"})
    answer = await operator.evict(call_of(held.token))
    assert answer.status == 200 and "its client's next retry replays it" in answer.text
    assert at.runtime.table.frames == 0 and at.runtime.counts["admin"] == 1
    reply = await at.retry("marked", held.token, held.accept(word="x"), arguments={"name": "Bo"})
    assert reply.messages == ["Bo two?"] and at.runtime.counts["rebuilt"] == 1
    assert (await operator.leases(replayed=True))["total"] == 1


async def test_a_frame_that_no_journal_can_rebuild_is_not_dropped(at: Served, operator: Operator) -> None:
    held = await at.call("unmarked")
    answer = await operator.evict(call_of(held.token))
    assert answer.status == 409 and "not marked @framehold.reentrant" in answer.text
    assert (await answered(at, "unmarked", held)).text == " x"


async def test_a_call_that_its_client_keeps_is_left_to_it(ran: Ran) -> None:
    """Whatever ended here, its token would enter it again; the list shows it while a round of it runs."""

    @framehold.reentrant
    @framehold.options(strategy="replay")
    async def kept(ctx: Context) -> str:
        """Asks, and runs on."""
        word = said(await ctx.elicit("one?", Word))
        ran.entered.append(word)
        await ran.goes_on.wait()
        return word

    async with serving(kept, **SETTINGS) as at, Operator(at.url) as operator:
        held = await at.call("kept")
        coming = asyncio.create_task(answered(at, "kept", held))
        await until(lambda: ran.entered, "the round")
        [item] = (await operator.leases())["items"]
        for refused in (await operator.cancel(item["call_id"]), await operator.evict(item["call_id"])):
            assert refused.status == 409 and "its client keeps it, in its token" in refused.text
        ran.goes_on.set()
        assert (await coming).text == "x"


@pytest.fixture
async def nodes(redis: RedisServer, tmp_path: Any) -> AsyncIterator[tuple[Node, Node]]:
    async with pair(redis, tmp_path.name, marked, unmarked) as made:
        yield made


async def test_another_node_tells_of_it_too_and_enters_nothing(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    for tool in ("marked", "unmarked"):
        held = await a.caller.call(tool)
        assert (await b.operator.cancel(call_of(held.token))).status == 404
        assert (await a.operator.cancel(call_of(held.token))).status == 200
        for node in (b, a):
            reply = await node.caller.retry(tool, held.token, held.accept(word="x"))
            assert reply.result["isError"] and reply.text.startswith(TOLD)
    assert (a.runtime.counts["entered"], b.runtime.counts["entered"], b.runtime.counts["rebuilt"]) == (2, 0, 0)


async def test_a_retry_that_comes_while_the_end_is_written_hears_it(nodes: tuple[Node, Node]) -> None:
    a, _ = nodes
    held = await a.caller.call("marked")
    submit, sent = a.runtime.store.submit, list[tuple[Request, Done]]()
    a.runtime.store.submit = lambda request, done: sent.append((request, done))
    cancelling = asyncio.create_task(a.operator.cancel(call_of(held.token)))
    await until(lambda: sent, "the write")
    a.runtime.store.submit = submit
    retrying = asyncio.create_task(a.caller.retry("marked", held.token, held.accept(word="x")))
    slot = a.runtime.table.get(CallId(call_of(held.token)))
    assert slot is not None
    await until(lambda: slot.call.waiting, "the retry")
    assert (await a.operator.cancel(call_of(held.token))).status == 409
    assert not retrying.done() and not cancelling.done()
    submit(*sent[0])
    assert (await retrying).text.startswith(TOLD) and (await cancelling).status == 200


async def test_an_end_that_the_store_does_not_answer_is_said_to_be_written_later(
    nodes: tuple[Node, Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "PATIENCE", 0.1)
    a, _ = nodes
    held = await a.caller.call("marked")
    submit, sent = a.runtime.store.submit, list[tuple[Request, Done]]()
    a.runtime.store.submit = lambda request, done: sent.append((request, done))
    answer = await a.operator.cancel(call_of(held.token))
    assert answer.status == 200 and "its end is written when the store answers again, unless" in answer.text
    (event,) = (await a.happened())["events"]
    assert event["kind"] == "cancelled" and "until its end is written another node may carry it on" in event["text"]
    a.runtime.store.submit = submit
    submit(*sent[0])
    reply = await a.caller.retry("marked", held.token, held.accept(word="x"))
    assert reply.text.startswith(TOLD)


async def test_a_call_that_another_node_has_by_now_is_not_cancelled_here(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    held = await a.caller.call("marked")
    await a.runtime.heartbeat.close()
    second = await b.caller.retry("marked", held.token, held.accept(word="x"))
    assert second.messages == [" two?"]
    answer = await a.operator.cancel(call_of(held.token))
    assert answer.status == 409 and "another node runs it by now" in answer.text
    assert (await a.operator.ask("GET", "node")).json["fenced"] == 1
    result = await a.happened()
    assert "cancelled" not in [event["kind"] for event in result["events"]]
    assert (await b.caller.retry("marked", second.token, second.accept(word="y"))).text == " x y"


async def test_a_prompt_that_is_cancelled_ends_with_an_error_of_the_protocol() -> None:
    server: MCPServer[Any] = MCPServer("prompts")

    @server.prompt()
    async def hello(ctx: Context) -> str:
        """Asks once."""
        return said(await ctx.elicit("who?", Word))

    app = framehold.asgi(server, Settings(node_id="p", **SETTINGS))
    async with served(app) as url, Caller(url) as caller, Operator(url) as operator:
        held = await caller.send("prompts/get", {"name": "hello"})
        assert (await operator.cancel(call_of(held.token))).status == 200
        params = {"name": "hello", "requestState": held.token, "inputResponses": held.accept(word="x")}
        for _ in range(2):
            reply = await caller.send("prompts/get", params)
            assert reply.code == -32603 and reply.text.startswith(TOLD)
