"""Keys of a fleet are rotated while a call waits, and routers have derived keys alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold_fleet.identity.router_keys import text_of
from tests.kit.client import Caller, accepted
from tests.kit.fleet import Fleet, RouterProcess
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.fleet]

SERVER = """
import framehold
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel
class Word(BaseModel):
    word: str
mcp = MCPServer("words")
@mcp.tool()
@framehold.reentrant
async def words(count: int, ctx: Context) -> str:
    said = [(await ctx.elicit(f"word {number}?", Word)).data.word for number in range(count)]
    return " ".join(said)
app = framehold.asgi(mcp)
"""
OLD, NEW = "an old key that has at least 32 bytes", "a new key that has at least 32 bytes"
STEPS = ((OLD,), (OLD, NEW), (NEW, OLD), (NEW,))
"""The lists of keys, in the order of docs/runbook.md; each is rolled out completely before the next one."""


async def test_a_call_outlives_a_rotation(tmp_path: Path, redis: RedisServer) -> None:
    """Within a step nodes have the next list already, and routers the one before. Each round gets through."""
    (tmp_path / "words.py").write_text(SERVER)
    made = Fleet(tmp_path, redis, str(tmp_path / "words.py"))
    try:
        await made.start_nodes("node-0", FRAMEHOLD_KEYS=OLD)
        routers = [await started(made, keys) for keys in STEPS]
        assert [node["state"] for node in await routers[3].nodes()] == ["other keys"], "it has the new key alone"
        call = Call(count=4)
        await call.through(routers[0])
        for step in (1, 2):
            await rolled(made, step, routers)
            for router in routers[step - 1 : step + 1]:
                await call.through(router)
        assert call.result == "0 1 2 3"

        call = Call(count=2)
        await call.through(routers[2])
        await rolled(made, 3, routers)
        for router in routers[2:]:
            await call.through(router)
        assert call.result == "0 1"
    finally:
        made.stop()


async def started(made: Fleet, keys: tuple[str, ...]) -> RouterProcess:
    """A router that has what is derived from these keys, and none of them."""
    derived = text_of(key.encode() for key in keys)
    return await made.start_router(keys="", router_keys=derived)


async def rolled(made: Fleet, step: int, routers: list[RouterProcess]) -> None:
    """Replace the node by one with the list of the next step; routers of both lists see it."""
    (before,) = made.nodes
    await made.start_nodes(f"node-{step}", FRAMEHOLD_KEYS=",".join(STEPS[step]))
    made.nodes.pop(before).stop()
    for router in routers[step - 1 : step + 1]:
        await router.knows(f"node-{step}")


class Call:
    """One call, whose rounds come through any router. `result` is what it said at its end."""

    def __init__(self, count: int) -> None:
        self._arguments = {"count": count}
        self._token, self._answered = "", 0
        self._asked: list[str] = []
        self.result = ""

    async def through(self, router: RouterProcess) -> None:
        """Send its next round."""
        async with Caller(router.url) as caller:
            if not self._token:
                reply = await caller.call("words", arguments=self._arguments)
            else:
                answers = {key: accepted(word=str(self._answered)) for key in self._asked}
                self._answered += 1
                reply = await caller.retry("words", self._token, answers, arguments=self._arguments)
        if "requestState" in reply.result:
            self._token, self._asked = reply.token, list(reply.asked)
        else:
            self.result = reply.text
