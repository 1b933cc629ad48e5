"""A paused tool: what new calls, parked ones and other nodes hear of it, and a tool that is paused by itself."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import Context
from pydantic import SecretStr

import framehold
from framehold.engine.doors.pauses import Pauses
from framehold_core import events as ev
from framehold_core import suspects
from framehold_core.ids import CallId
from framehold_core.pauses import FRAMEHOLD, OPERATOR, Loss, Pause, Tools
from framehold_fleet.members.store_health import StoreLook
from framehold_fleet.models.events import EventKind
from framehold_fleet.models.nodes import NodeView
from framehold_router.verdict import rules
from framehold_router.verdict.seen import FleetFacts
from framehold_store.keys import Keys
from framehold_store.memory import MemoryStore
from tests.kit.client import Reply
from tests.kit.effects import SOON, Effects
from tests.kit.operators import TOKEN, Node, call_of, marked, pair, unmarked
from tests.kit.processes import DEADLINE, until
from tests.kit.redis_server import RedisServer, running
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio
ENTERED: list[str] = []


@framehold.reentrant
async def noted(ctx: Context, name: str = "") -> str:
    """Notes that it is entered; asks twice."""
    ENTERED.append(name)
    first = said(await ctx.elicit(f"{name} one?", Word))
    return f"{name} {first} {said(await ctx.elicit(f'{name} two?', Word))}"


@pytest.fixture(autouse=True)
def nobody_entered() -> None:
    ENTERED.clear()


@pytest.fixture
async def nodes(redis: RedisServer, tmp_path: Path) -> AsyncIterator[tuple[Node, Node]]:
    async with pair(redis, tmp_path.name, noted, marked, unmarked, lease_ttl=3.0, pause_after=3) as both:
        yield both


async def pause(node: Node, tool: str, **more: str) -> None:
    answer = await node.operator.ask("POST", "pause", json={"tool": tool, **more})
    assert answer.status == 200 and f"tool {tool} is paused" in answer.text


async def resume(node: Node, tool: str) -> None:
    assert (await node.operator.ask("POST", "resume", json={"tool": tool})).status == 200


async def told_to_wait(node: Node, tool: str, reply: Reply, whose: str = "an operator") -> None:
    """A retry is not taken, and is told to come again, later than after an outage, and who paused the tool."""
    refused = await node.caller.retry(tool, reply.token, reply.accept(word="x"))
    assert refused.status == 503 and int(refused.headers["retry-after"]) == 15
    assert f"this tool is paused by {whose}" in refused.text and "the call waits and nothing was taken" in refused.text


async def test_a_paused_tool_takes_no_new_call_and_its_calls_wait(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    held = await a.caller.call("noted")
    await pause(a, "noted", why="it bills twice")
    refused = await a.caller.call("noted")
    assert refused.status == 200 and refused.result["isError"] is True
    assert (
        "paused by an operator" in refused.text
        and "Nothing was started" in refused.text
        and "bills" not in refused.text
    )
    await told_to_wait(a, "noted", held)
    assert ENTERED == [""] and (await a.caller.call("unmarked")).status == 200
    known = (await a.operator.ask("GET", "node")).json["paused"]
    assert [(one["tool"], one["by"], one["why"]) for one in known] == [("noted", "operator", "it bills twice")]
    # The other node learns of it with its next heartbeat; so does one that takes the call over.
    await until(lambda: b.runtime.door.pauses.known, "the other node to know")
    await told_to_wait(b, "noted", held)
    await resume(b, "noted")
    await until(lambda: not a.runtime.door.pauses.known, "the first node to know")
    second = await a.caller.retry("noted", held.token, held.accept(word="x"))
    assert (await a.caller.retry("noted", second.token, second.accept(word="y"))).text == " x y"
    assert ENTERED == [""]
    happened = (await a.happened())["events"] + (await b.happened())["events"]
    assert [event["kind"] for event in happened if event["kind"] in ("paused", "resumed")] == ["paused", "resumed"]
    name = a.runtime.peers.trust.credential(SecretStr(TOKEN))
    assert all(
        f"by an operator (admin token {name})" in event["text"] for event in happened if event["kind"] != "drain"
    )


async def test_what_an_operator_may_pause(nodes: tuple[Node, Node], redis: RedisServer) -> None:
    a, _ = nodes

    async def asked(what: str, **body: Any) -> tuple[int, str]:
        answer = await a.operator.ask("POST", what, json=body)
        return answer.status, answer.text

    status, text = await asked("pause", tool="typo")
    assert status == 404 and "there is no tool or prompt typo here; nothing was done; there are: noted" in text
    assert (await asked("resume", tool="noted")) == (404, "tool noted is not paused; nothing was done")
    for body in ({}, {"tool": ""}, {"tool": "x" * 201}, {"tool": "noted", "until": "noon"}):
        assert (await asked("pause", **body))[0] == 400
    assert (await a.operator.ask("POST", "pause", headers={}, json={"tool": "noted"})).status == 403
    assert (await asked("pause", tool="resources/read"))[0] == 200
    await pause(a, "noted")
    assert "was paused before" in (await asked("pause", tool="noted"))[1]
    with redis.paused():
        status, text = await asked("resume", tool="noted")
        assert status == 503 and "not known" in text


# ---- a tool whose calls end their processes


def ended(redis: RedisServer, namespace: str, node: Node, reply: Reply, boot: str, attempts: int) -> None:
    """Have the record say that a process which is gone ran the call: one that had claimed it, if there were
    attempts."""
    call = call_of(reply.token)
    slot = node.runtime.table.get(CallId(call))
    if slot is not None:
        node.runtime.feed(slot, ev.Evict("admin"))
    gone = {"owner": "gone", "inc": "gone", "boot": boot, "attempts": attempts}
    with redis.client() as client:
        client.hset(Keys(namespace).call(call)[0], mapping=gone)


async def test_a_call_whose_processes_ended_is_not_claimed_by_the_next(
    nodes: tuple[Node, Node], redis: RedisServer, tmp_path: Path
) -> None:
    """Two that had entered it alone, and the one before them."""
    a, b = nodes
    held = await a.caller.call("noted")
    answer = {"word": "x"}
    ended(redis, tmp_path.name, a, held, "boot-2", 2)
    await a.runtime.store.died("noted", "boot-1", 3, "test")
    ENTERED.clear()
    refused = await a.caller.retry("noted", held.token, held.accept(**answer))
    guard = "paused by the server itself, since its calls ended several processes; the call waits"
    assert refused.status == 503 and guard in refused.text
    assert refused.headers["retry-after"] == "15", "as of every paused call: an operator has to resume it"
    assert ENTERED == []
    [known] = (await a.operator.ask("GET", "node")).json["paused"]
    assert known["by"] == FRAMEHOLD and known["why"] == "its calls ended 3 processes within 10 minutes"
    assert "framehold resume noted" in str((await a.happened())["events"])
    await told_to_wait(a, "noted", held, "the server itself")
    assert "paused by the server itself" in (await a.caller.call("noted")).text
    await until(lambda: b.runtime.door.pauses.known, "the other node to know")
    await resume(a, "noted")
    second = await a.caller.retry("noted", held.token, held.accept(**answer))
    assert second.messages == [" two?"] and ENTERED == [""]


async def test_a_call_that_moves_on_clears_its_tool(
    nodes: tuple[Node, Node], redis: RedisServer, tmp_path: Path
) -> None:
    a, _ = nodes
    held = await a.caller.call("noted")
    ended(redis, tmp_path.name, a, held, "boot-1", 2)
    assert (await a.caller.retry("noted", held.token, {})).messages == [" one?"]
    assert (await a.runtime.store.tools()).suspected == {"noted"}
    assert (await a.caller.retry("noted", held.token, held.accept(word="x"))).messages == [" two?"]
    await cleared(a)
    assert a.runtime.door.pauses.known == {}


async def cleared(node: Node) -> None:
    async with asyncio.timeout(DEADLINE):
        while (await node.runtime.store.tools()).suspected:
            await asyncio.sleep(0.01)


PAID = Effects()


@framehold.reentrant
async def pays(ctx: Context) -> str:
    """Asks, pays, and asks again."""
    await ctx.elicit("one?", Word)
    await framehold.once("pay", PAID.held)
    return said(await ctx.elicit("two?", Word))


async def test_a_call_that_has_only_begun_an_effect_clears_its_tool_later(redis: RedisServer, tmp_path: Path) -> None:
    """The effect may be what ends processes."""
    async with pair(redis, tmp_path.name, pays, lease_ttl=3.0, pause_after=3) as (a, _):
        held = await a.caller.call("pays")
        ended(redis, tmp_path.name, a, held, "boot-1", 2)
        going_on = asyncio.create_task(a.caller.retry("pays", held.token, held.accept(word="x")))
        try:
            async with asyncio.timeout(SOON):
                await PAID.started.wait()
            assert (await a.runtime.store.tools()).suspected == {"pays"}
        finally:
            PAID.go.set()
        assert (await going_on).messages == ["two?"]
        await cleared(a)


DOORS: dict[str, asyncio.Event] = {}


@framehold.reentrant
async def slow(ctx: Context, name: str) -> str:
    """Asks, waits at its door, and asks again."""
    await ctx.elicit(f"{name} one?", Word)
    ENTERED.append(name)
    await DOORS[name].wait()
    return f"{name} {said(await ctx.elicit(f'{name} two?', Word))}"


async def test_a_suspect_waits_for_the_one_before_it(redis: RedisServer, tmp_path: Path) -> None:
    """Calls that may have ended several processes are entered one at a time on a node. Others do not wait: not for one
    of them, and not with it."""
    attempts = {"first": 1, "second": 2, "other": 0}
    DOORS.update((name, asyncio.Event()) for name in attempts)
    async with pair(redis, tmp_path.name, slow, lease_ttl=3.0, pause_after=0) as (node, _):
        held: dict[str, Reply] = {}
        for name, count in attempts.items():
            held[name] = await node.caller.call("slow", arguments={"name": name})
            ended(redis, tmp_path.name, node, held[name], f"boot-{name}", count)

        def answer(name: str) -> asyncio.Task[Reply]:
            answers = held[name].accept(word="x")
            return asyncio.create_task(
                node.caller.retry("slow", held[name].token, answers, arguments={"name": name}), name=name
            )

        replies = [answer("first")]
        await until(lambda: ENTERED == ["first"], "the first to be entered")
        replies.append(answer("second"))
        await until(lambda: node.runtime._gate.suspects.waiting == 1, "the second to wait")
        replies.append(answer("other"))
        await until(lambda: ENTERED == ["first", "other"], "the other to be entered")
        DOORS["first"].set()
        assert (await replies[0]).messages == ["first two?"]
        await until(lambda: ENTERED == ["first", "other", "second"], "the second to be entered")
        for door in DOORS.values():
            door.set()
        assert [(await reply).messages for reply in replies[1:]] == [["second two?"], ["other two?"]]


async def test_a_suspect_that_waited_for_too_long_is_told_to_come_again(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    DOORS.update((name, asyncio.Event()) for name in ("first", "second"))
    async with pair(redis, tmp_path.name, slow, lease_ttl=3.0, pause_after=0) as (node, _):
        held = {name: await node.caller.call("slow", arguments={"name": name}) for name in ("first", "second")}

        async def answer(name: str) -> Reply:
            answers = held[name].accept(word="x")
            return await node.caller.retry("slow", held[name].token, answers, arguments={"name": name})

        for name, reply in held.items():
            ended(redis, tmp_path.name, node, reply, f"boot-{name}", 1)
        first = asyncio.create_task(answer("first"))
        await until(lambda: ENTERED == ["first"], "the first to be entered")
        monkeypatch.setattr(suspects, "PATIENCE", 0.05)
        refused = await answer("second")
        assert refused.status == 503 and int(refused.headers["retry-after"]) >= 1
        assert "it is entered alone" in refused.text and ENTERED == ["first"]
        for door in DOORS.values():
            door.set()
        assert (await first).messages == ["first two?"]
        assert (await answer("second")).messages == ["second two?"]


@framehold.reentrant
async def other(ctx: Context) -> str:
    return said(await ctx.elicit("Which?", Word))


async def test_a_pause_stands_again_and_the_loss_is_told(tmp_path: Path) -> None:
    """And a tool that was resumed before is not paused by it. One of the nodes tells the event."""
    with running(RedisServer()) as redis, redis.client() as client:
        async with pair(redis, tmp_path.name, marked, other, lease_ttl=3.0) as (a, b):
            for tool in ("marked", "other"):
                await a.operator.ask("POST", "pause", json={"tool": tool, "why": "it bills twice"})
            await until(lambda: len(b.runtime.door.pauses.known) == 2, "both pauses at the other node")
            await b.operator.ask("POST", "resume", json={"tool": "other"})
            client.flushall()
            both = (a.runtime.door.pauses, b.runtime.door.pauses)
            await until(lambda: all(pauses.loss for pauses in both), "both nodes to notice")
            await until(lambda: all([*pauses.known] == ["marked"] for pauses in both), "the pause alone")
            assert [pause.tool for pause in (await a.runtime.store.tools()).paused] == ["marked"]
            assert (await b.caller.call("marked")).result["isError"] is True
            assert (await a.caller.call("other")).status == 200

            told = [event for node in (a, b) for event in (await node.happened())["events"]]
            [event] = [event for event in told if event["kind"] == EventKind.STORE_EMPTIED]
            assert "the store was emptied, or replaced by another" in event["text"]
            nodes = [
                NodeView(**(await node.operator.ask("GET", "node")).json, address=node.caller.url) for node in (a, b)
            ]
            [problem] = rules.of(FleetFacts(a.runtime.clock.time(), nodes, [], [], 0, StoreLook(), ()))
            assert problem.kind == "store_emptied" and "written again; what it alone had" in problem.text


async def test_a_bug_in_a_read_leaves_what_is_known(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A node reads them at its start, too, and starts."""
    store, pause = MemoryStore(lambda: 0.0), Pause("noted", 1.5, OPERATOR, "")
    await store.pause(pause)

    async def odd() -> Tools:
        return Tools(loss=Loss(1e300, 0.0, True))

    shared: Any = SimpleNamespace(tasks=None, observers=None, clock=None, counts=Counter[str]())
    pauses = Pauses(store, shared, 3, lambda: None)
    await pauses.read()
    monkeypatch.setattr(store, "tools", odd)
    await pauses.read()
    assert pauses.known == {"noted": pause} and "a bug in reading the paused tools" in caplog.text


async def test_clients_of_2025_are_told_too(nodes: tuple[Node, Node]) -> None:
    a, _ = nodes
    await pause(a, "noted")

    async def never(context: Any, params: Any) -> Any:
        raise AssertionError("a paused tool asks nothing")

    async with Client(a.caller.url, mode="legacy", elicitation_callback=never) as old:
        result = await old.call_tool("noted", {})
        assert result.is_error and "Nothing was started" in result.content[0].text  # type: ignore[union-attr]  # a text
    assert ENTERED == []
