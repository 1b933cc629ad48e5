"""A node that may claim a call, and has other code than the call began with, asks a node with the very code first
(docs/protocol.md, rule 28)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import framehold
from framehold.config import Settings
from framehold.engine.heartbeat import Heartbeat
from framehold.http.app import Application
from framehold_core.lease import MAX_CODES, code_names
from framehold_fleet.members.membership import LIVE
from tests.node.code.releases import release
from tests.node.nodes import KEY, served
from tests.processes import until
from tests.store.server import RedisServer
from tests.wire import Caller, Reply

pytestmark = pytest.mark.anyio

OLD = """\
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

import framehold

server = MCPServer("halves")


class Word(BaseModel):
    word: str


@server.tool()
@framehold.reentrant
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("early question?", Word)
    return "early " + answer.data.word
"""
NEW = OLD.replace("early", "later")


class Halves:
    """Nodes of two releases in one fleet. `apps` has the app of each."""

    def __init__(self, redis: RedisServer, folder: Path, **settings: Any) -> None:
        self._redis, self._folder, self._settings = redis, folder, settings
        self.apps: dict[str, Application] = {}

    @asynccontextmanager
    async def node(self, name: str, text: str) -> AsyncIterator[Caller]:
        """A node that serves one release. Only one module `server` can be imported at a time: the node has started when
        the next one is."""
        usual = {"store_url": self._redis.url, "namespace": self._folder.name, "keys": (KEY,), "node_id": name}
        async with AsyncExitStack() as stack:
            with release(self._folder / name, text) as module:
                settings = Settings(**{**usual, "lease_ttl": 5.0, "route_headers": True, **self._settings})
                app = self.apps[name] = framehold.asgi(module.server, settings)
                caller = await stack.enter_async_context(Caller(await stack.enter_async_context(served(app))))
            yield caller

    async def ends(self) -> Reply:
        """The end of a call of the old release that node a began, and that node c, of the new one, is asked for."""
        async with self.node("b", OLD):
            async with self.node("a", OLD) as at_a:
                asked = await at_a.call("ask")
                assert asked.messages == ["early question?"]
            await self.before_the_retry()
            async with self.node("c", NEW) as at_c:
                return await at_c.retry("ask", asked.token, asked.accept(word="w"))

    async def before_the_retry(self) -> None:
        """What happens between the end of node a and the retry: nothing."""


class Unreached(Halves):
    """Node b is out of reach when the retry comes."""

    async def before_the_retry(self) -> None:
        beat = self.apps["b"].attached.runtime.heartbeat
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            beat.address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        known = beat.lease.beat
        beat.announce(LIVE)
        await until(lambda: beat.lease.beat > known, "the lease with the other address")


@pytest.mark.parametrize("keep_code", [True, False])
async def test_a_retry_goes_to_the_node_that_has_the_very_code(
    keep_code: bool, redis: RedisServer, tmp_path: Path
) -> None:
    """The old half of a fleet carries on what the new half could not, or would have to load."""
    end = await Halves(redis, tmp_path, keep_code=keep_code).ends()
    assert end.text == "early w"
    assert end.headers["framehold-node"] == "b" and "framehold-code" not in end.headers


async def test_a_node_with_the_code_that_is_out_of_reach_holds_nobody_up(redis: RedisServer, tmp_path: Path) -> None:
    """Its lease would last for five seconds: the node that was asked takes the call, with the kept code."""
    async with asyncio.timeout(4.0):
        end = await Unreached(redis, tmp_path, lease_ttl=60.0).ends()
    assert end.text == "early w"
    assert end.headers["framehold-node"] == "c" and end.headers["framehold-code"] == "kept"


async def test_a_lease_names_the_codes_of_the_marked_handlers(redis: RedisServer, tmp_path: Path) -> None:
    """Eight characters each; none of a handler that is never entered again."""
    text = NEW + "\n\n@server.tool()\nasync def once(ctx: Context) -> str:\n    return 'x'\n"
    halves = Halves(redis, tmp_path)
    async with halves.node("a", text):
        attached = halves.apps["a"].attached
        heartbeat = attached.runtime.heartbeat
        assert isinstance(heartbeat, Heartbeat)
        assert heartbeat.codes == attached.handlers.find("tools/call", {"name": "ask"}).code()[:8]
        assert await heartbeat._store.nodes() and attached.handlers.find("tools/call", {"name": "once"}).code()


def test_a_lease_names_a_bounded_number_of_codes() -> None:
    names = code_names(f"{number:032x}"[::-1] for number in range(1000)).split()
    assert len(names) == MAX_CODES and {len(name) for name in names} == {8}
    assert code_names(["", "0123456789", "0123456789"]) == "01234567"
