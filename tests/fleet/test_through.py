"""What a client may do with a node it may do through the router."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.types import ElicitRequestParams, ElicitResult, LoggingMessageNotificationParams, TextContent
from mcp_types import LOG_LEVEL_META_KEY

from tests.fleet.fleet import Fleet, fleet
from tests.processes import until
from tests.store.server import RedisServer
from tests.wire import Caller

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

TALKER = "tests/fleet/talker.py"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def talkers(redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    """Three nodes behind a router, for all these tests."""
    folder = tmp_path_factory.mktemp("talkers")
    async with fleet(folder, redis, "node-1", "node-2", "node-3", target=TALKER) as made:
        await made.add_router()
        yield made


async def test_progress_and_logs_come_as_they_are_said(talkers: Fleet) -> None:
    """On the stream of the round that says them; the last event is the reply."""
    async with Caller(talkers.routers[0].url) as caller:
        meta = {"progressToken": "p", LOG_LEVEL_META_KEY: "info"}
        reply = await caller.call("talk", meta=meta)
        assert reply.streamed
        for number in (1, 2):
            assert [event["method"] for event in reply.events] == ["notifications/progress", "notifications/message"]
            assert reply.events[1]["params"]["data"] == f"line {number}"
            reply = await caller.retry("talk", reply.token, reply.accept(word="w"), meta=meta)
    assert [event["params"]["message"] for event in reply.events] == ["done"]
    assert reply.text == "w w"


async def test_each_event_comes_at_once(talkers: Fleet) -> None:
    """The router holds nothing back: progress is read while the handler still runs."""
    async with Caller(talkers.routers[0].url) as caller:
        asked = await caller.call("linger")
        params = {
            "name": "linger",
            "arguments": {},
            "requestState": asked.token,
            "inputResponses": asked.accept(word="w"),
        }
        ended = talkers.entries()["ended"]
        envelope = caller.envelope("tools/call", params, meta={"progressToken": "p"})
        async with httpx2.AsyncClient(timeout=40) as http, asyncio.timeout(40):
            request = http.stream("POST", caller.url, json=envelope.body, headers=envelope.headers)
            async with request as response:
                assert b"notifications/progress" in await anext(response.aiter_raw())
                assert talkers.entries()["ended"] == ended
    await until(lambda: talkers.entries()["ended"] > ended, "the end of the round that was left")


async def test_leaving_cancels_the_round_at_its_node(talkers: Fleet) -> None:
    """Closing the response stream is the protocol's cancellation; the call is lost, as its next retry is told."""
    async with Caller(talkers.routers[0].url) as caller:
        before = talkers.entries()
        asked = await caller.call("linger")
        waiting = asyncio.create_task(caller.retry("linger", asked.token, asked.accept(word="w")))
        await until(lambda: talkers.entries()["lingers"] > before["lingers"], "the round to run")
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await until(lambda: talkers.entries()["ended"] > before["ended"], "its cancellation")
        result = await caller.retry("linger", asked.token, asked.accept(word="w"))
    assert result.result["isError"] and "entered once" in result.text


async def test_a_session_of_2025_is_elicited_over_its_stream(talkers: Fleet) -> None:
    """Many at once, over all nodes: each stays on its own, with progress and logs on the way."""
    nodes: dict[str, set[str]] = {}

    async def watch(response: httpx2.Response) -> None:
        session = response.request.headers.get("mcp-session-id")
        if session is not None:
            nodes.setdefault(session, set()).add(response.headers["framehold-node"])

    async def one(number: int) -> str:
        from mcp.client.streamable_http import streamable_http_client

        async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
            return ElicitResult(action="accept", content={"word": f"{number}"})

        async def log(params: LoggingMessageNotificationParams) -> None:
            lines.append(params.data)

        async def progress(progress: float, total: float | None, message: str | None) -> None:
            steps.append(message)

        lines: list[Any] = []
        steps: list[Any] = []
        async with httpx2.AsyncClient(event_hooks={"response": [watch]}, timeout=30) as http:
            transport = streamable_http_client(talkers.routers[0].url, http_client=http)
            client = Client(transport, mode="legacy", elicitation_callback=answer, logging_callback=log)
            async with client:
                result = await client.call_tool("talk", {}, progress_callback=progress)
        assert lines == ["line 1", "line 2"]
        assert steps == ["step 1", "step 2", "done"]
        (block,) = result.content
        assert isinstance(block, TextContent)
        return block.text

    text = await asyncio.gather(*map(one, range(12)))
    assert text == [f"{number} {number}" for number in range(12)]
    assert len(nodes) == 12 and all(len(served) == 1 for served in nodes.values())
    assert set.union(*nodes.values()) == {"node-1", "node-2", "node-3"}
    assert {session: served for session, served in nodes.items() if session.split(".")[1] not in served} == {}


async def test_large_bodies(talkers: Fleet) -> None:
    """70 KiB and more pass; beyond FRAMEHOLD_MAX_BODY it is 413 from the router, and no node is asked."""
    async with Caller(talkers.routers[0].url) as caller:
        for size in (70 * 1024, 3 * 1024 * 1024):
            assert (await caller.call("echo", arguments={"text": "x" * size})).text == str(size)
        envelope = caller.envelope("tools/call", {"name": "echo", "arguments": {"text": "x" * (5 * 1024 * 1024)}})
        async with httpx2.AsyncClient() as http:
            result = await http.post(caller.url, json=envelope.body, headers=envelope.headers)
    assert result.status_code == 413
    assert "FRAMEHOLD_MAX_BODY" in result.text


async def test_rounds_with_large_answers_stick(talkers: Fleet) -> None:
    """A router reads the token wherever it stands in the body."""
    async with Caller(talkers.routers[0].url) as caller:
        reply = await caller.call("talk")
        node = reply.headers["framehold-node"]
        for _ in range(2):
            reply = await caller.retry("talk", reply.token, reply.accept(word="w" * 200_000))
            assert (reply.headers["framehold-node"], reply.headers["framehold-route"]) == (node, "ring")
    assert len(reply.text) == 400_001


# Last, as it kills a node of the fleet.
async def test_a_lost_session_is_404(talkers: Fleet) -> None:
    """The client is told to begin anew as soon as the node's lease has run out; until then, to try again: the node may
    only be out of reach."""
    initialize = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }
    accept = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(headers=accept) as http:
        url = talkers.routers[0].url
        begun = await http.post(url, json=initialize)
        session = begun.headers["mcp-session-id"]
        node = session.split(".")[1]
        talkers.nodes.pop(node).kill()
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        async with asyncio.timeout(10):
            while (result := await http.post(url, json=ping, headers={"mcp-session-id": session})).status_code != 404:
                assert result.status_code == 503 and int(result.headers["retry-after"]) >= 1, result.text
