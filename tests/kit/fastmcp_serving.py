"""FastMCP servers of one test, served on a loopback port with a store in memory, and their client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import FastMCP

import framehold
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from framehold.http.app import Application
from tests.kit.client import EVERYTHING, Caller, Reply
from tests.kit.nodes import served


class Hosted(Caller):
    """The client, with the runtime behind it."""

    runtime: Runtime

    async def answered(self, method: str, params: dict[str, Any], *values: Any, **options: Any) -> Reply:
        """A whole call: each round answered with the next value, under FastMCP's `value` or as the form itself."""
        reply = await self.send(method, params, **options)
        for value in values:
            content = value if isinstance(value, dict) else {"value": value}
            again = {**params, "requestState": reply.token, "inputResponses": reply.accept(**content)}
            reply = await self.send(method, again, **options)
        return reply

    async def tool(self, name: str, *values: Any, **options: Any) -> Reply:
        """The same for a tool."""
        arguments = options.pop("arguments", {})
        return await self.answered("tools/call", {"name": name, "arguments": arguments}, *values, **options)


@asynccontextmanager
async def hosted(
    server: FastMCP[Any] | Application, has: Mapping[str, Any] = EVERYTHING, **settings: Any
) -> AsyncIterator[Hosted]:
    """Serve `server` on a node with these settings, or an app as it is."""

    app = server if isinstance(server, Application) else framehold.asgi(server, Settings(node_id="hosted", **settings))
    async with served(app) as url, Hosted(url, has) as caller:
        caller.runtime = app.attached.runtime
        yield caller
