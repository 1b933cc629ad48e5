"""A node in this process over a Redis that a test may trouble, with a client that comes again when it is told to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from framehold_core import lease
from framehold_store import system_clock as clock
from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, served
from tests.kit.processes import DEADLINE
from tests.kit.redis_server import RedisServer


class Word(BaseModel):
    word: str


class Node:
    """A node in this process, its client, and what its handlers did."""

    def __init__(self, redis: RedisServer, caller: Caller, runtime: Runtime) -> None:
        self.redis, self.caller, self.runtime = redis, caller, runtime
        self.entered: list[str] = []
        self.resumed: list[str] = []

    @property
    def window_open(self) -> bool:
        """Whether the node may run and reply without asking the store."""
        return lease.is_open(self.runtime.heartbeat.lease, clock.now())

    async def ask(self, name: str, rounds: int = 2) -> Reply:
        """A call that is to park in round 1."""
        reply = await self.caller.call("ask", arguments={"name": name, "rounds": rounds})
        assert reply.messages == [f"{name} 1?"]
        return reply

    async def answer(self, reply: Reply, name: str, rounds: int = 2) -> Reply:
        """Answer with the name, once."""
        arguments = {"name": name, "rounds": rounds}
        return await self.caller.retry("ask", reply.token, reply.accept(word=name), arguments=arguments)

    async def complete(self, reply: Reply, name: str) -> str:
        """Answer all rounds, each as often as the server asks to come again."""
        while reply.result["resultType"] == "input_required":
            reply = await insist(partial(self.answer, reply, name))
        return reply.text

    def record(self, reply: Reply) -> dict[str, str]:
        """The call's record as it stands."""
        with self.redis.client() as client:
            raw = client.hgetall(f"fh:trouble:{{{call_of(reply)}}}:r")
        return {name.decode(): value.decode("latin-1") for name, value in raw.items()}


def call_of(reply: Reply) -> str:
    return reply.token.split(".")[1]


def refused(reply: Reply) -> bool:
    """Whether a request was told to come again: a protocol error with status 503 and a delay."""
    if reply.status != 503:
        return False
    assert reply.code == -32603 and int(reply.headers["retry-after"]) >= 1
    # Round 1 has no token that could be sent again: it says so.
    assert "send the same request again" in reply.text or "start a new call if that is safe" in reply.text
    return True


async def insist(send: Callable[[], Awaitable[Reply]]) -> Reply:
    """Send until the store is there again."""
    async with asyncio.timeout(DEADLINE):
        while refused(reply := await send()):
            await asyncio.sleep(0.05)
    return reply


@asynccontextmanager
async def node_at(redis: RedisServer, lease_ttl: float, store: str = "") -> AsyncIterator[Node]:
    """A node in this process that shares `redis`, which it reaches at `store`, if that is not empty."""
    mcp = MCPServer("trouble")

    @mcp.tool()
    async def ask(name: str, rounds: int, ctx: Context) -> str:
        """Ask in each of some rounds."""
        here.entered.append(name)
        for number in range(1, rounds + 1):
            await ctx.elicit(f"{name} {number}?", Word)
            here.resumed.append(name)
        return f"{name} is done"

    @mcp.tool()
    async def silent() -> str:
        """Ask nothing."""
        return "silence"

    @mcp.tool()
    async def polite(ctx: Context) -> str:
        """Take a context, and ask nothing."""
        here.entered.append("polite")
        return "thanks"

    @mcp.tool()
    async def careful() -> str:
        """Take no context, and run an effect."""
        here.entered.append("careful")
        return str(await framehold.once("effect", lambda: "careful"))

    @mcp.tool()
    @framehold.options(ttl=60)
    async def marked() -> str:
        """Be marked, and take no context."""
        here.entered.append("marked")
        return "marked"

    fixed: dict[str, Any] = {"namespace": "trouble", "node_id": "one", "keys": (KEY,), "log_level": "info"}
    settings = Settings(store_url=store or redis.url, lease_ttl=lease_ttl, **fixed)
    app = framehold.asgi(mcp, settings)
    async with served(app) as url, Caller(url) as caller:
        here = Node(redis, caller, app.attached.runtime)
        yield here
