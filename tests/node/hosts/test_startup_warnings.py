"""What whoever starts a process is told at once (`notices`): here of an address that others lack."""

from __future__ import annotations

import logging
import multiprocessing
import sys
from contextlib import AsyncExitStack
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings, workers
from framehold.hosts.attached import Attached, logger
from framehold.http.app import Application
from framehold_core.errors import ConfigError
from tests.kit.client import Caller
from tests.kit.nodes import KEY, served
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio


def server() -> MCPServer[Any]:
    made: MCPServer[Any] = MCPServer("asks")

    @made.tool()
    @framehold.reentrant
    async def ask(ctx: Context) -> str:
        return said(await ctx.elicit("Which word?", Word))

    return made


def shared(redis: RedisServer, node: str = "n", lease_ttl: float = 60.0, **settings: Any) -> Settings:
    """Settings of a node on a shared store. A lease is longer than any pause of a busy machine, unless it is waited
    for."""
    return Settings(store_url=redis.url, keys=(KEY,), node_id=node, lease_ttl=lease_ttl, **settings)


def unlisted(app: Application) -> Any:
    """As another ASGI server runs it: the app isn't told where it listens."""

    async def run(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)

    return run


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == logger.name]


async def started(attached: Attached) -> None:
    async with attached.server.lifespan(attached.server):
        pass


async def test_an_app_without_an_address_on_a_shared_store_says_so_once(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    app = framehold.asgi(server(), shared(redis, namespace="notices-http"))
    async with app.lifespan():
        await started(app.attached)
    (line,) = lines(caplog)
    assert line.startswith("FRAMEHOLD_ADVERTISE_URL is not set") and "framehold node" in line


async def test_where_nothing_is_missing_nothing_is_said(redis: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    listening = framehold.asgi(server(), shared(redis, namespace="notices-b"))
    listening.attached.runtime.heartbeat.address = "http://127.0.0.1:9"
    for app in (
        framehold.asgi(server(), shared(redis, namespace="notices-a", advertise_url="http://127.0.0.1:9")),
        framehold.asgi(server(), Settings(node_id="n")),
        listening,
    ):
        async with app.lifespan():
            pass
    await started(framehold.attach(server(), shared(redis, namespace="notices-stdio")))
    assert lines(caplog) == []


async def test_another_transport_in_the_fleets_namespace_is_told_to_have_its_own(
    redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    made, settings = server(), shared(redis, "stdio-1")
    framehold.asgi(made, settings)
    await started(framehold.attach(made, settings))
    (line,) = lines(caplog)
    assert "FRAMEHOLD_NAMESPACE of their own" in line


def as_worker(monkeypatch: pytest.MonkeyPatch, argv: list[str], **environment: str) -> None:
    monkeypatch.setattr(multiprocessing, "parent_process", multiprocessing.current_process)
    monkeypatch.setattr(sys, "argv", argv)
    for name in ("WEB_CONCURRENCY", "GRANIAN_WORKERS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("command", "environment", "number"),
    [
        ("uvicorn server:app --workers 2", {}, 2),
        ("gunicorn --workers=3 server:app", {}, 3),
        ("gunicorn -w 4 server:app", {}, 4),
        ("hypercorn -w4 server:app", {}, 4),
        ("uvicorn server:app", {"WEB_CONCURRENCY": "5"}, 5),
        ("granian server:app", {"GRANIAN_WORKERS": "6"}, 6),
        ("uvicorn server:app --workers 1", {"WEB_CONCURRENCY": "5"}, 1),
        ("uvicorn server:app --reload", {}, 1),
        ("uvicorn server:app", {"WEB_CONCURRENCY": "many"}, 1),
    ],
)
def test_the_number_of_workers(
    monkeypatch: pytest.MonkeyPatch, command: str, environment: dict[str, str], number: int
) -> None:
    as_worker(monkeypatch, command.split(), **environment)
    assert workers() == number
    monkeypatch.setattr(multiprocessing, "parent_process", lambda: None)
    assert workers() == 1


async def test_several_workers_are_warned_or_refused(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a store most answers reach the wrong worker, unless tokens carry their calls; over a store the workers
    would be one node. A connection without an app is no worker's."""
    as_worker(monkeypatch, ["uvicorn", "server:app", "--workers", "2"])
    async with framehold.asgi(server(), Settings(node_id="n")).lifespan():
        pass
    async with framehold.asgi(server(), Settings(node_id="n", strategy="replay", keys=(KEY,))).lifespan():
        pass
    async with Client(framehold.attach(server(), shared(redis, namespace="workers-none")).server):
        pass
    (line,) = [line for line in lines(caplog) if "workers" in line]
    assert line.startswith("this process is one of 2 workers of one server") and "run one worker a process" in line
    with pytest.raises(ConfigError, match=r"one of 2 workers .* nothing was started; run one worker a process"):
        async with framehold.asgi(server(), shared(redis, namespace="workers")).lifespan():
            raise AssertionError("it started")


async def test_ids_of_sessions_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The SDK tells them whole; whoever reads one may speak in its session."""
    caplog.set_level(logging.INFO)
    async with served(framehold.asgi(server(), Settings(node_id="n"))) as url, httpx2.AsyncClient() as http:
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        result = await http.post(url, json=body, headers={"accept": "application/json, text/event-stream"})
        session = result.headers["mcp-session-id"]
        assert (await http.delete(url, headers={"mcp-session-id": session})).status_code == 200
    assert session.rpartition(".")[2] not in caplog.text


async def test_rounds_at_another_process_are_refused_while_the_one_without_an_address_lives(redis: RedisServer) -> None:
    """What the line says: 503 at first, and taken over by the other when it has ended."""
    one = framehold.asgi(server(), shared(redis, "one", namespace="notices-two"))
    # The request is refused when it has waited for longer than this node's lease.
    two = framehold.asgi(server(), shared(redis, "two", namespace="notices-two", lease_ttl=3.0))
    async with AsyncExitStack() as both:
        there = await both.enter_async_context(served(unlisted(two)))
        async with Caller(there) as other:
            async with served(unlisted(one)) as here, Caller(here) as caller:
                reply = await caller.call("ask")
                refused = await other.retry("ask", reply.token, reply.accept(word="x"))
                assert refused.status == 503 and "can't be reached; nothing was done here" in refused.text
            assert (await other.retry("ask", reply.token, reply.accept(word="x"))).text == "x"
