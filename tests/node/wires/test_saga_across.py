"""Sagas across nodes, processes and revisions."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Annotated, Any

import pytest
from mcp import Client
from mcp.server.mcpserver import Context, Elicit, Resolve
from mcp.shared.exceptions import MCPError
from mcp_types import Request
from pydantic import RootModel

import framehold
from tests.kit import serving
from tests.kit.client import Caller, Reply, accepted
from tests.kit.effects import each_way
from tests.kit.fleet import fleet, haproxy
from tests.kit.nodes import entries, heirs
from tests.kit.redis_server import RedisServer
from tests.kit.sagas import SagaClient, done, failed, form, saga_stage, steps, token
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio


@framehold.reentrant
async def two(ctx: Context) -> str:
    """Two questions, and progress between them."""
    first = said(await ctx.elicit("one", Word))
    await ctx.report_progress(1, 2, "half")
    return f"{first} {said(await ctx.elicit('two', Word))}"


def pair(redis: RedisServer, namespace: str, **settings: Any) -> AbstractAsyncContextManager[serving.Pair]:
    return serving.pair(redis, namespace, two, lease_ttl=5.0, sagas=True, route_headers=True, **settings)


async def test_a_resume_that_reaches_a_wrong_node_is_passed_on(redis: RedisServer, tmp_path: Path) -> None:
    """So sagas work through any load balancer: each request at another node, the handler entered and resumed at one."""
    async with pair(redis, tmp_path.name) as ((a, at_a), (b, at_b)):
        client = SagaClient(at_a)
        first = await client.call("two")
        client.wire = at_b
        second = await at_b.send(
            "tools/resumeSaga",
            {"name": "two", "sagaToken": token(first), "completedSteps": [form(steps(first)[0])]},
            meta={"progressToken": "p"},
        )
        assert (second.headers["framehold-node"], second.headers["framehold-route"]) == ("a", "lease")
        assert [event["params"]["message"] for event in second.events] == ["half"]
        client.completed = [form(steps(first)[0])]
        client.wire = at_a
        last = await client.resume(second, form(steps(second)[0]))
        assert (last.text, last.headers["framehold-route"]) == ("<one> <two>", "ring")
        assert (a.attached.runtime.counts["entered"], b.attached.runtime.counts["entered"]) == (1, 0)


async def test_a_node_that_dies_between_two_resumes(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after each round; the next one takes over, also where a step had failed before, and where the SDK asks
    for a parameter by itself. Each effect ran once."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    monkeypatch.setenv("FRAMEHOLD_SAGAS", "true")
    async with heirs("tests/node/reentrant_server.py", tmp_path, redis.url) as start:

        async def mortal(tool: str, name: str) -> Reply:
            node = await start()
            async with Caller(node.url) as wire:
                client = SagaClient(wire)
                reply = await client.call(tool, name=name)
            while reply.message.get("result", {}).get("state") == "suspended":
                node.kill()
                node = await start()
                async with Caller(node.url) as wire:
                    client.wire = wire
                    answers = [
                        done(step, {"action": "accept", "content": {"word": step["params"]["message"].split()[-1]}})
                        for step in steps(reply)
                    ]
                    reply = await client.resume(reply, *answers)
            node.kill()
            return reply

        assert (await mortal("resolved", "Cy")).text == "Cy? now? done-Cy-Cy?#1"
    assert entries(tmp_path / "entries") == ["done-Cy-Cy?"]


async def agree(name: str) -> Word | Elicit[Word]:
    """Asked by the SDK itself, before the tool begins."""
    return Elicit(f"may {name}?", Word)


@each_way
async def test_a_parameter_that_is_asked_for_and_a_body_that_asks(settings: dict[str, Any]) -> None:
    """Resumes name neither tool nor arguments, and the SDK misses no capability that a saga can't declare."""

    @framehold.reentrant
    async def mixed(name: str, may: Annotated[Word, Resolve(agree)], ctx: Context) -> str:
        return f"{may.word} {said(await ctx.elicit('and now?', Word))}"

    async with saga_stage(mixed, **settings) as wire:
        assert (await SagaClient(wire).told("mixed", name="Di")).text == "<may Di?> <and now?>"


class SagaRequest(Request[dict[str, Any], str]):
    """A request of a saga. The SDK writes its tool's name into `Mcp-Name`."""

    name_param = "name"


class Official:
    """The SDK's own client, for which sagas are methods like any other."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def send(self, method: str, params: dict[str, Any], **_: Any) -> Reply:
        try:
            request = SagaRequest(method=method, params=params)
            found = await self.client.session.send_request(request, RootModel[dict[str, Any]])
        except MCPError as error:
            return Reply(200, {}, {"error": error.error.model_dump(exclude_none=True)})
        return Reply(200, {}, {"result": found.root})


@pytest.mark.parametrize("mode", ["auto", "2026-07-28", "legacy"])
async def test_the_official_client_drives_a_saga_on_each_transport(mode: Any) -> None:
    async with saga_stage(two) as wire:
        for where in (wire.url, wire.server):
            async with Client(where, mode=mode) as official:
                assert (await SagaClient(Official(official)).told("two")).text == "<one> <two>"


@each_way
async def test_a_saga_of_a_client_of_2025(settings: dict[str, Any]) -> None:
    """It is suspended like any other, and needs nothing of the session that it began on: another one resumes it."""

    @framehold.reentrant
    async def careful(ctx: Context) -> str:
        try:
            await ctx.elicit("one", Word)
        except MCPError as error:
            return f"{error.error.message}: {framehold.era(ctx)} {said(await ctx.elicit('two', Word))}"
        return "never"

    async with saga_stage(careful, **settings) as wire:
        async with Client(wire.url, mode="legacy") as old:
            client = SagaClient(Official(old))
            first = await client.call("careful")
            assert first.result.keys() == {"state", "sagaToken", "steps"}
            second = await client.resume(first, failed(steps(first)[0], message="no screen"))
            assert (await client.resume("h1.junk", form(steps(second)[0]))).code == -32602
        async with Client(wire.url, mode="legacy") as old:
            client.wire = Official(old)
            third = await client.raw(sagaToken=token(second), completedSteps=[form(steps(second)[0])])
            assert third.text == "no screen: modern <two>"
            assert "resultType" not in third.result
        assert wire.runtime.counts["entered"] == 1 and len(wire.runtime.table) == 0


REENTRANT = "tests/node/reentrant_server.py"
HASHED = Path(__file__).parents[3] / "examples" / "haproxy.cfg"


async def ways(url: str, name: str) -> list[tuple[str, str]]:
    """Which node served each round of one saga of three questions, and how the request found it."""
    async with Caller(url) as wire:
        client = SagaClient(wire)
        reply = [await client.call("sequence", name=name)]
        for number in range(3):
            (step,) = steps(reply[-1])
            reply.append(await client.resume(reply[-1], done(step, accepted(word=f"word-{number}"))))
    effects = " ".join(f"{place}-{name}#1" for place in ("first", "second", "third"))
    assert reply[-1].text.startswith(f"word-0 word-1 word-2 {effects} ")
    return [(each.headers["framehold-node"], each.headers["framehold-route"]) for each in reply]


async def test_sagas_find_their_frames(redis: RedisServer, tmp_path: Path) -> None:
    """The router reads a resume's token, so it goes where the saga began, as does HAProxy with a hash."""
    async with fleet(tmp_path, redis, "a", "b", "c", target=REENTRANT, sagas="true") as made:
        router = await made.add_router()
        async with haproxy(tmp_path, HASHED, made.nodes) as hashed:
            for url in (router.url, hashed):
                for number in range(6):
                    begun, *resumed = await ways(url, f"n{number}-{url[-8:-4]}")
                    assert resumed == [(begun[0], "ring")] * 3
