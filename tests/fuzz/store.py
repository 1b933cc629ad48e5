"""A fleet in this process, with a store that somebody else writes: two nodes and a router, whose clients go on."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import httpx2
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

import framehold
from framehold.admin.actions import Actions
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from framehold_core.ids import CallId
from framehold_router.app import running as router_running
from framehold_router.config import RouterSettings
from framehold_store.keys import Keys
from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, served
from tests.kit.processes import DEADLINE
from tests.kit.redis_server import RedisServer, running
from tests.kit.serving import Word, said

from .complaints import Complaints, complaints
from .lies import Planter
from .part import Outcome, played

PAGES = (
    "overview", "nodes", "nodes/a", "capacity", "history", "history?range=24h", "tools", "waiting", "ring",
    "leases", "calls", "failovers", "events",
)  # fmt: skip
"""Pages of the API that read the store, of the router itself or through a node."""
SHOWN = {
    "sample": ("history", "history?range=24h"),
    "log": ("events", "failovers", "calls"),
    "tools": ("tools",),
    "lease": ("nodes", "ring", "overview"),
    "stranger": ("nodes", "capacity", "waiting"),
    "members": ("nodes", "ring"),
}
"""The pages that show what a kind of lie is about."""
TOOLS = ("ask", "plain")
LEASE_TTL = 1.5


def server() -> MCPServer[Any]:
    """The tools of both nodes: one that is marked, with an effect, and one that is not."""
    mcp: MCPServer[Any] = MCPServer("fuzz")

    @mcp.tool()
    @framehold.reentrant
    async def ask(name: str, ctx: Context) -> str:
        """Run an effect, and ask twice."""
        framehold.uuid4("drawn")
        await framehold.once("effect", lambda: name)
        one = said(await ctx.elicit(f"{name} 1?", Word))
        return f"{name}: {one} {said(await ctx.elicit(f'{name} 2?', Word))}"

    @mcp.tool()
    async def plain(name: str, ctx: Context) -> str:
        """Ask twice."""
        one = said(await ctx.elicit(f"{name} 1?", Word))
        return f"{name}: {one} {said(await ctx.elicit(f'{name} 2?', Word))}"

    return mcp


class Fleet:
    """The fleet, and what its clients do while somebody lies."""

    def __init__(
        self, redis: Any, keys: Keys, nodes: dict[str, Runtime], callers: list[Caller], api: str, heard: Complaints
    ) -> None:
        self._redis, self._keys, self._nodes, self._callers, self._api = redis, keys, nodes, callers, api
        self._heard = heard
        self._http = httpx2.AsyncClient(timeout=DEADLINE)
        self.kinds = set[tuple[str, str]]()
        """Which kinds of lie led to which answers."""

    async def close(self) -> None:
        """Close its client of the API."""
        await self._http.aclose()

    async def _told(self, reply: Reply, name: str, tool: str, where: Caller) -> Reply:
        """The response to an answer."""
        arguments = {"name": name}
        return await where.retry(tool, reply.token, reply.accept(word="yes"), arguments=arguments)

    async def wrong(self, seed: int) -> str | None:
        """What is wrong with what some lies led to; None if nothing is."""
        draw, self._heard.said = Random(seed), []
        try:
            async with asyncio.timeout(DEADLINE):
                bad, lies = await self._lied(draw, seed)
        except (TimeoutError, httpx2.TransportError) as error:
            bad, lies = [f"a client waits in vain ({error!r})"], []
        bad += [f"node {name} has ended" for name, runtime in self._nodes.items() if runtime.heartbeat.lost.is_set()]
        bad += self._heard.said
        return f"{bad}\n  {lies}" if bad else None

    async def _lied(self, draw: Random, seed: int) -> tuple[list[str], list[str]]:
        """What is wrong with what clients heard, and the lies."""
        begun = [await self._begun(f"{seed}-{number}", draw.choice(TOOLS)) for number in range(4)]
        calls = [CallId(reply.token.split(".")[1]) for _, _, reply in begun]
        planter = Planter(self._redis, self._keys, draw, calls, list(self._nodes))
        lies = [planter.plant() for _ in range(draw.choice((1, 3, 6, 10)))]
        for runtime in self._nodes.values():
            if draw.random() < 0.3:
                runtime.heartbeat.announce(runtime.heartbeat.state)
            for call in calls:
                if draw.random() < 0.5:
                    # Its next round reads the store.
                    Actions(runtime).evict(call, "fuzz")
        found = [await self._answered(draw, *call) for call in begun] + [await self._looked(draw, calls, lies)]
        self.kinds |= {(lie.partition(":")[0], kind) for lie in lies for kind, _ in found[:-1]}
        await self._tidy(calls)
        await self._control(seed)
        return [text for text, is_wrong in found if is_wrong], lies

    async def _begun(self, name: str, tool: str) -> tuple[str, str, Reply]:
        """A call that is parked at some node."""
        while True:
            reply = await self._callers[0].call(tool, arguments={"name": name})
            if reply.status == 200 and reply.message.get("result", {}).get("resultType") == "input_required":
                return name, tool, reply
            await asyncio.sleep(0.02)

    async def _answered(self, draw: Random, name: str, tool: str, reply: Reply) -> tuple[str, bool]:
        """What the client of a call heard last, and whether it may not hear that."""
        for _ in range(4):
            heard = await self._told(reply, name, tool, draw.choice(self._callers))
            if heard.status == 500:
                return f"500 {heard.message}", True
            result = heard.message.get("result")
            if heard.status == 503 or result is None:
                continue
            if result["resultType"] != "input_required":
                is_wrong = not result.get("isError") and heard.text != f"{name}: yes yes"
                return heard.text if is_wrong else _kind(heard), is_wrong
            if (asked := heard.messages) != [f"{name} 2?"]:
                return f"{name} is asked {asked}", True
            reply = heard
        return _kind(heard), False

    async def _looked(self, draw: Random, calls: list[CallId], lies: list[str]) -> tuple[str, bool]:
        """What pages of the API answered: one for each lie, and another one."""
        call = f"leases/{draw.choice(calls)}"
        pages = [draw.choice(SHOWN.get(lie.partition(":")[0], (call,))) for lie in lies]
        for page in (*pages, draw.choice(PAGES)):
            response = await self._http.get(f"{self._api}/api/v1/{page}")
            if response.status_code == 500:
                return f"{page}: {response.text}", True
        return "", False

    async def _tidy(self, calls: list[CallId]) -> None:
        """Delete what was lied about, but for what nodes write again, and end what is left of the calls."""
        kept = {*map(self._keys.node, self._nodes), self._keys.nodes}
        for key in self._redis.scan_iter("fh:*"):
            is_right = self._redis.type(key) == (b"zset" if key.decode() == self._keys.nodes else b"string")
            if key.decode("utf-8", "replace") not in kept or not is_right:
                self._redis.delete(key)
        for runtime in self._nodes.values():
            runtime.heartbeat.announce(runtime.heartbeat.state)
            for call in calls:
                await Actions(runtime).cancel(call, "fuzz")

    async def _control(self, seed: int) -> None:
        """A call that nobody lies about, through the router, begun again until it completes."""
        while True:
            name = f"control {seed}"
            name, tool, reply = await self._begun(name, TOOLS[seed % 2])
            for _ in range(3):
                reply = await self._told(reply, name, tool, self._callers[0])
                if reply.status != 200 or "result" not in reply.message:
                    break
                if reply.result["resultType"] == "complete":
                    if reply.text == f"{name}: yes yes":
                        return
                    break
            await asyncio.sleep(0.02)


def _kind(reply: Reply) -> str:
    """What a response says, whatever call it is about."""
    if "error" in reply.message:
        return f"{reply.status} {reply.code}"
    reason = reply.result.get("_meta", {}).get("framehold/reason", "")
    return f"{reply.status} {reply.result['resultType']} {reason}"


@asynccontextmanager
async def fleet(redis: RedisServer) -> AsyncIterator[Fleet]:
    """Two nodes and a router."""
    namespace = secrets.token_hex(4)
    common: dict[str, Any] = {"store_url": redis.url, "namespace": namespace, "keys": (KEY,)}
    listening = socket.create_server(("127.0.0.1", 0))
    root = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with AsyncExitStack() as stack:
        heard, client = stack.enter_context(complaints()), stack.enter_context(redis.client())
        nodes, urls = dict[str, Runtime](), [f"{root}/mcp"]
        for name in ("a", "b"):
            app = framehold.asgi(server(), Settings(node_id=name, lease_ttl=LEASE_TTL, **common))
            urls.append(await stack.enter_async_context(served(app)))
            nodes[name] = app.attached.runtime
        await stack.enter_async_context(router_running(RouterSettings(**common), listening))
        # What a router has kept and read it does not read again.
        [task.cancel() for task in asyncio.all_tasks() if task.get_name() == "framehold history"]
        callers = [await stack.enter_async_context(Caller(url)) for url in urls]
        made = Fleet(client, Keys(namespace), nodes, callers, root, heard)
        stack.push_async_callback(made.close)
        yield made


async def _tell(redis: RedisServer, seed: int, seconds: float) -> Outcome:
    """Tell lies until the time is over. Who waits in vain does so until then."""
    async with fleet(redis) as at:
        done = await played(seed, seconds, at.wrong)
        return done._replace(seen=f"{len(at.kinds)} kinds of answer")


async def _bounded(redis: RedisServer, seed: int, seconds: float) -> tuple[Outcome, bool]:
    """What was found, and whether the fleet has ended after it."""
    telling = asyncio.create_task(_tell(redis, seed, seconds))
    await asyncio.wait([telling], timeout=seconds + 3 * DEADLINE)
    return (await telling, True) if telling.done() else (Outcome(0, ["the fleet does not end"]), False)


def run(seed: int, seconds: float) -> Outcome:
    """Tell the lies of the seeds that begin with `seed`, for some seconds."""
    runner = asyncio.Runner()
    with running(RedisServer()) as redis:
        outcome, has_ended = runner.run(_bounded(redis, seed, seconds))
        if has_ended:
            # Else its end would be waited for without a limit.
            runner.close()
        return outcome
