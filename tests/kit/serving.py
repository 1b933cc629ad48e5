"""Tools of one test, served on a loopback port with a store in memory, and their client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from mcp.server import MCPServer
from pydantic import BaseModel

import framehold
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from framehold.http.app import Application
from tests.kit.client import EVERYTHING, Caller
from tests.kit.nodes import KEY, served
from tests.kit.redis_server import RedisServer

Pair = list[tuple[Application, Caller]]
"""Two nodes, each with a client."""


class Word(BaseModel):
    word: str


def said(answer: Any) -> str:
    """The word of an accepted form, else what was done with it."""
    return str(answer.data.word) if answer.action == "accept" else str(answer.action)


class Served(Caller):
    """The client, with the runtime and the server behind it."""

    runtime: Runtime
    server: MCPServer[Any]


def server_of(name: str, *tools: Callable[..., Any]) -> MCPServer[Any]:
    """A server with `tools`, each under its own name."""
    server: MCPServer[Any] = MCPServer(name)
    for tool in tools:
        server.tool(description="A tool of this test.")(tool)
    return server


@asynccontextmanager
async def serving(
    *tools: Callable[..., Any],
    has: Mapping[str, Any] = EVERYTHING,
    failures: list[Exception] | None = None,
    **settings: Any,
) -> AsyncIterator[Served]:
    """Serve `tools`, each under its own name, on a node with these settings. What its start or its end raises is
    appended to `failures`, if there is such a list, and nothing else follows from it."""
    server = server_of("stage", *tools)
    app = framehold.asgi(server, Settings(**{"node_id": "stage", **settings}))
    async with served(app, failures=failures) as url, Served(url, has) as caller:
        caller.runtime, caller.server = app.attached.runtime, server
        yield caller


@asynccontextmanager
async def pair(redis: RedisServer, namespace: str, *tools: Callable[..., Any], **settings: Any) -> AsyncIterator[Pair]:
    """Two nodes in this process that share a store, and a client of each."""
    async with AsyncExitStack() as stack:
        made: Pair = []
        for name in ("a", "b"):
            common = {"store_url": redis.url, "namespace": namespace, "keys": (KEY,)}
            app = framehold.asgi(server_of("pair", *tools), Settings(node_id=name, **{**common, **settings}))
            url = await stack.enter_async_context(served(app))
            made.append((app, await stack.enter_async_context(Caller(url))))
        yield made
