"""The lifespan of an app, as its runner sees it: a start that fails, and a second one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import httpx2
import pytest
import uvicorn
from fastmcp import FastMCP
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from uvicorn.lifespan.on import LifespanOn

import framehold
from framehold.config import Settings
from framehold.http.app import Application
from tests.kit.client import Caller
from tests.kit.nodes import served

pytestmark = pytest.mark.anyio


def broken() -> Application:
    """An app whose server can't start."""

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    return framehold.asgi(MCPServer("broken", lifespan=lifespan), Settings(node_id="n"))


def test_a_start_that_fails_is_raised_where_a_test_client_enters() -> None:
    with pytest.raises(RuntimeError, match="no database"), TestClient(broken()):
        raise AssertionError("it was entered")


async def test_uvicorn_reports_a_start_that_fails_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = LifespanOn(uvicorn.Config(broken(), log_config=None, log_level="error"))
    monkeypatch.setattr(running.logger, "handlers", [caplog.handler])
    monkeypatch.setattr(running.logger, "propagate", False)
    await running.startup()
    assert running.should_exit
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in errors] == ["no database", "Application startup failed. Exiting."]
    assert not any(record.exc_info for record in errors)


def lone() -> Application:
    """An app with a tool."""
    server: FastMCP[Any] = FastMCP("lone")

    @server.tool
    def work() -> str:
        """Work."""
        return "done"

    return framehold.asgi(server, Settings(node_id="n"))


async def worked(app: Application, own: bool) -> str:
    """What the tool says; `own`: who serves the app runs its lifespan."""
    async with served(app if own else Starlette(routes=[Mount("/", app)])) as url, Caller(url) as caller:
        return (await caller.call("work")).text


async def asked(app: Application, tool: str, left: asyncio.Event | None = None) -> None:
    """Call a tool without a server between. The client leaves when `left` is set, and stays without one."""
    envelope = Caller("http://127.0.0.1:80/mcp").envelope("tools/call", {"name": tool, "arguments": {}})
    headers = {"host": "127.0.0.1:80", "content-type": "application/json", **envelope.headers}
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
    }
    coming = [{"type": "http.request", "body": json.dumps(envelope.body).encode()}]

    async def receive() -> Any:
        if coming:
            return coming.pop()
        await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None: ...

    await app(scope, receive, send)


RUNNERS = pytest.mark.parametrize("own", [False, True], ids=["starts itself", "is started"])


@RUNNERS
def test_an_app_serves_in_one_event_loop_after_another(own: bool) -> None:
    app = lone()
    for _ in range(2):
        assert asyncio.run(worked(app, own)) == "done"


@pytest.mark.anyio
async def test_a_second_lifespan_that_fails_ends_nothing_of_the_first() -> None:
    """An MCPServer can't be started twice."""
    app = framehold.asgi(MCPServer("once"), Settings(node_id="n"))
    async with served(app) as url, httpx2.AsyncClient() as client:
        with pytest.raises(RuntimeError):
            async with app.lifespan():
                pass
        assert (await client.get(f"{url.removesuffix('/mcp')}/healthz")).status_code == 200


@RUNNERS
def test_an_app_that_can_start_only_once_says_so(own: bool) -> None:
    """The SDK's own app runs one lifespan. Nobody is told that the node shuts down."""
    app = framehold.asgi(MCPServer("once"), Settings(node_id="n"))

    def live() -> str:
        client = TestClient(app, "http://127.0.0.1")
        with client if own else nullcontext():
            return client.get("/healthz").text

    assert live() == "ok\n"
    for _ in range(2):
        with pytest.raises(RuntimeError, match="once per instance"):
            live()


def test_a_client_that_leaves_is_noticed_in_each_event_loop() -> None:
    """Also where a loop has ended just after a request."""
    server: FastMCP[Any] = FastMCP("lone")

    @server.tool
    def work() -> str:
        """Work."""
        return "done"

    @server.tool
    async def wait() -> None:
        """Wait for ever."""
        entered.set()
        await asyncio.Event().wait()

    async def live(tool: str, left: asyncio.Event | None = None) -> None:
        async with app.lifespan(), asyncio.timeout(10):
            await asked(app, tool, left)

    app, entered = framehold.asgi(server, Settings(node_id="n")), asyncio.Event()
    asyncio.run(live("work"))
    asyncio.run(live("wait", entered))
    assert entered.is_set()
