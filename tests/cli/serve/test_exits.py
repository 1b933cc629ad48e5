"""A process that is ended by its author's code hands its calls off before it closes its store."""

from __future__ import annotations

import asyncio
import secrets
import sys
from pathlib import Path

import httpx2
import pytest

from framehold_cli.local.ports import free as free_port
from tests.kit.client import Caller
from tests.kit.nodes import KEY, FrameholdProcess, NodeProcess
from tests.kit.processes import Child, environment, until
from tests.kit.redis_server import RedisServer

pytestmark = pytest.mark.anyio

SERVER = """
import asyncio, os, sys
from contextlib import asynccontextmanager
import framehold
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel

class Word(BaseModel):
    word: str

async def watch():
    while not os.path.exists(os.environ["EXIT"]):
        await asyncio.sleep(0.01)
    {exit}

@asynccontextmanager
async def lifespan(server):
    watching = asyncio.create_task(watch())
    yield {{}}

mcp = MCPServer("exits", lifespan=lifespan)

@mcp.tool()
@framehold.reentrant
async def ask(ctx: Context) -> str:
    return (await ctx.elicit("Well?", Word)).data.word

app = framehold.asgi(mcp)
"""
EXITS = {
    "a task": "sys.exit(3)",
    "a callback": "asyncio.get_running_loop().call_soon(sys.exit, 3)",
}


class Uvicorn(FrameholdProcess):
    """The same app under plain uvicorn."""

    def __init__(self, folder: Path, log: Path, **settings: str) -> None:
        port = free_port()
        env = environment(FRAMEHOLD_KEYS=KEY, **settings)
        command = [sys.executable, "-m", "uvicorn", "server:app", "--port", str(port), "--log-level", "warning"]
        Child.__init__(self, command, log, env=env, cwd=folder)
        self.url = f"http://127.0.0.1:{port}/mcp"

    async def start(self) -> None:
        self.launch()
        async with httpx2.AsyncClient(verify=False, timeout=2) as http:
            while not await self._answers(http):
                assert self.alive, self.log()
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("way", EXITS)
@pytest.mark.parametrize(("command", "lease"), [("framehold node", "60"), ("uvicorn", "2")])
async def test_a_task_that_ends_the_process(
    command: str, lease: str, way: str, tmp_path: Path, redis: RedisServer
) -> None:
    """Its parked calls go on elsewhere: at once, before a lease can run out. Not so under plain uvicorn, which cancels
    all tasks at once, also those that write to the store: there they go on when the lease is over."""
    target, log = tmp_path / "server.py", tmp_path / "log"
    target.write_text(SERVER.format(exit=EXITS[way]))
    shared = {"FRAMEHOLD_STORE_URL": redis.url, "FRAMEHOLD_NAMESPACE": secrets.token_hex(4)}
    settings = {**shared, "FRAMEHOLD_LEASE_TTL": lease, "EXIT": str(tmp_path / "exit")}
    ended = (
        NodeProcess(str(target), log, 0, FRAMEHOLD_NODE_ID="a", **settings)
        if command == "framehold node"
        else Uvicorn(tmp_path, log, FRAMEHOLD_NODE_ID="a", **settings)
    )
    heir = NodeProcess(str(target), tmp_path / "log.b", 0, FRAMEHOLD_NODE_ID="b", **{**settings, "EXIT": "nowhere"})
    try:
        await asyncio.gather(ended.start(), heir.start())
        async with Caller(ended.url) as caller:
            asked = [await caller.call("ask") for _ in range(5)]
        (tmp_path / "exit").touch()
        await until(lambda: not ended.alive, "its end")
        assert ended.code == 3, ended.log()
        async with Caller(heir.url) as caller:
            for reply in asked:
                done = await caller.retry("ask", reply.token, reply.accept(word="fine"))
                while command == "uvicorn" and done.status == httpx2.codes.SERVICE_UNAVAILABLE:
                    done = await caller.retry("ask", reply.token, reply.accept(word="fine"))
                assert done.message.get("result", {}).get("content") and done.text == "fine", (
                    done.message,
                    ended.log(),
                )
    finally:
        ended.stop()
        heir.stop()
