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

from tests.kit.client import Caller
from tests.kit.fleet import Fleet, fleet
from tests.kit.redis_server import RedisServer

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
