"""How long a node's runtime lives in a process: over connections that come one after the other, over event loops, and
beside other servers of the same process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import jsonschema.validators  # noqa: F401  # the SDK's client imports it at its first result, and stalls this loop
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ElicitRequestParams, ElicitResult, InputRequiredResult, TextContent

import framehold
from framehold.config import Settings
from framehold.engine.peers import Peers
from framehold.hosts.attached import Attached
from framehold.hosts.lifetime import Lifetime
from framehold_core.errors import ConfigError
from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_core.lease import NodeRecord
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_fleet.members.membership import Fleet, Member
from framehold_store.memory import MemoryStore
from framehold_store.system_clock import system_clock
from tests.kit.client import Caller
from tests.kit.nodes import KEY, served
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio


def asks(name: str = "asks", **options: Any) -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer(name, **options)

    @server.tool()
    async def ask(ctx: Context) -> str:
        before = ctx.request_context.lifespan_context
        word = said(await ctx.elicit("Which word?", Word))
        return f"{before or ''} {word} {ctx.request_context.lifespan_context or ''}".strip()

    return server


def settings(redis: RedisServer | None = None, folder: Path | None = None, node: str = "n", **more: Any) -> Settings:
    if redis is None or folder is None:
        return Settings(node_id=node, **more)
    return Settings(node_id=node, store_url=redis.url, keys=(KEY,), namespace=folder.name, lease_ttl=60.0, **more)


async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
    return ElicitResult(action="accept", content={"word": "hello"})


def text(result: Any) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


async def completes(server: MCPServer[Any], mode: Any = "auto") -> str:
    async with Client(server, mode=mode, elicitation_callback=answer) as client:
        return text(await client.call_tool("ask", {}))


async def parks(server: MCPServer[Any], tool: str = "ask") -> InputRequiredResult:
    async with Client(server, elicitation_callback=answer) as client:
        found = await client.session.call_tool(tool, {}, allow_input_required=True)
        assert isinstance(found, InputRequiredResult)
        return found


async def goes_on(server: MCPServer[Any], parked: InputRequiredResult, tool: str = "ask") -> str:
    (key,) = parked.input_requests or {}
    answers: dict[str, Any] = {key: ElicitResult(action="accept", content={"word": "hello"})}
    async with Client(server, elicitation_callback=answer) as client:
        return text(await client.call_tool(tool, {}, input_responses=answers, request_state=parked.request_state))


@pytest.mark.parametrize("loops", ["one loop", "loop after loop"])
def test_connections_one_after_the_other_over_a_shared_store(
    redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, loops: str
) -> None:
    """The store that the last connection closed is opened for the next one, in both eras, and the lease is a new one
    without having lapsed."""
    caplog.set_level(logging.INFO)
    server = asks()
    framehold.attach(server, settings(redis, tmp_path))
    modes = ("auto", "auto", "legacy", "auto")

    async def all_of_them() -> list[str]:
        return [await completes(server, mode) for mode in modes]

    one = loops == "one loop"
    result = asyncio.run(all_of_them()) if one else [asyncio.run(completes(server, mode)) for mode in modes]
    assert result == ["hello"] * 4
    shown = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    # Both say, once, that nobody reaches a node without an address.
    assert [one for one in shown if "FRAMEHOLD_ADVERTISE_URL" not in one] == [] and len(shown) <= 2
    assert "lapsed" not in caplog.text
    with redis.client() as client:
        assert not client.exists(f"fh:{tmp_path.name}:node:n")


@pytest.mark.parametrize("shared", [False, True], ids=["memory", "redis"])
async def test_a_parked_call_outlives_its_connection(redis: RedisServer, tmp_path: Path, shared: bool) -> None:
    """Its handler is not marked: only the frame can carry it on. When it has ended, so does the runtime."""
    server = asks()
    attached = framehold.attach(server, settings(redis, tmp_path) if shared else settings())
    parked = await parks(server)
    assert attached.runtime.table.load() == (1, 0)
    assert await goes_on(server, parked) == "hello"
    assert attached.runtime.counts["entered"] == 1
    assert _is_closed(attached)


async def test_what_stays_ends_with_its_last_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody comes back: the call expires, and then the runtime is closed."""
    monkeypatch.setattr("framehold.hosts.lifetime.LOOK", 0.01)
    server = asks()
    attached = framehold.attach(server, settings(token_ttl=0.2))
    await parks(server)
    assert not _is_closed(attached)
    await until(lambda: _is_closed(attached), "the end of the runtime")
    assert await completes(server) == "hello"


@pytest.mark.parametrize("shared", [False, True], ids=["memory", "redis"])
def test_what_stays_ends_with_the_event_loop(
    redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, shared: bool
) -> None:
    """The parked handler is cancelled, nothing is left running, and the server works in the next loop."""
    server, seen = asks(), list[str]()
    tidies(server, seen)
    attached = framehold.attach(server, settings(redis, tmp_path) if shared else settings())

    async def park() -> None:
        async with Client(server, elicitation_callback=answer) as client:
            await client.session.call_tool("tidy", {}, allow_input_required=True)
        assert seen == []

    asyncio.run(park())
    assert seen == ["handler ended"] and _is_closed(attached)
    if not shared:
        assert asyncio.run(completes(server)) == "hello"
        assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


class _SlowToClose:
    table = ()

    def __init__(self) -> None:
        self.opened = self.closed = 0
        self.may_close = asyncio.Event()

    async def open(self) -> None:
        self.opened += 1

    async def close(self) -> None:
        self.closed += 1
        await self.may_close.wait()


async def test_a_connection_that_is_cancelled_while_another_one_closes_closes_nothing() -> None:
    runtime, leaves = _SlowToClose(), [asyncio.Event(), asyncio.Event()]
    lifetime = Lifetime(cast(Any, runtime), lambda: None)

    async def connection(leave: asyncio.Event) -> None:
        async with lifetime.use(stays=False):
            await leave.wait()

    first = asyncio.create_task(connection(leaves[0]))
    await until(lambda: runtime.opened, "the first connection")
    leaves[0].set()
    await until(lambda: runtime.closed, "its end")
    cancelled = asyncio.create_task(connection(leaves[1]))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.sleep(0)
    third = asyncio.create_task(connection(leaves[1]))
    runtime.may_close.set()
    await until(lambda: runtime.opened == 2, "the third connection")
    assert runtime.closed == 1 and lifetime.is_open
    leaves[1].set()
    await asyncio.wait([first, cancelled, third])
    assert runtime.closed == 2 and not lifetime.is_open


def _is_closed(attached: Attached) -> bool:
    lifetime: Lifetime = attached._lifetime
    return not lifetime.is_open


def resources(seen: list[str]) -> Callable[[Any], Any]:
    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[str]:
        name = f"db{sum('opened' in one for one in seen) + 1}"
        seen.append(f"{name} opened")
        try:
            yield name
        finally:
            seen.append(f"{name} closed")

    return lifespan


def tidies(server: MCPServer[Any], seen: list[str]) -> None:
    @server.tool()
    async def tidy(ctx: Context) -> str:
        try:
            return said(await ctx.elicit("Which word?", Word))
        finally:
            seen.append("handler ended")


async def test_a_call_ends_before_what_the_lifespan_of_its_connection_opened() -> None:
    """The lifespan is the author's: a frame that went on would have a closed database."""
    seen: list[str] = []
    server = asks(lifespan=resources(seen))
    tidies(server, seen)
    attached = framehold.attach(server, settings())
    async with Client(server, elicitation_callback=answer) as client:
        await client.session.call_tool("tidy", {}, allow_input_required=True)
    assert seen == ["db1 opened", "handler ended", "db1 closed"] and _is_closed(attached)


async def test_a_call_goes_on_in_the_lifespan_of_its_present_connection() -> None:
    """If it is marked, it is entered again there, from its journal; else the first connection has to be open still."""
    server = asks(lifespan=resources([]))

    @server.tool()
    @framehold.reentrant
    async def marked(ctx: Context) -> str:
        word = said(await ctx.elicit("Which word?", Word))
        return f"{word} {ctx.request_context.lifespan_context}"

    framehold.attach(server, settings())
    assert await goes_on(server, await parks(server, "marked"), "marked") == "hello db2"
    async with Client(server, elicitation_callback=answer) as client:
        parked = await client.session.call_tool("ask", {}, allow_input_required=True)
        assert isinstance(parked, InputRequiredResult)
        assert await goes_on(server, parked) == "db3 hello db4"


async def test_a_connection_beside_an_app_leaves_the_apps_lifespan_alone() -> None:
    server = asks(lifespan=resources([]))
    app = framehold.asgi(server, settings())
    async with served(app) as url, Caller(url) as caller:
        assert await completes(server) == "db2 hello db2"
        reply = await caller.call("ask")
        assert (await caller.retry("ask", reply.token, reply.accept(word="a"))).text == "db1 a db1"


# ---- two servers in one process


async def test_a_server_that_another_one_uses(redis: RedisServer, tmp_path: Path) -> None:
    """A module attaches a second server for itself; the one that is served keeps the name, although the other one
    starts within its lifespan, and no request of the fleet is sent to the other one."""
    inner = asks("inner")
    framehold.attach(inner, settings(redis, tmp_path, advertise_url="http://127.0.0.1:9"))
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        seen.append(await completes(inner))
        yield

    outer = asks("outer", lifespan=lifespan)

    @outer.tool()
    async def relay(ctx: Context) -> str:
        async def through(context: Any, params: ElicitRequestParams) -> ElicitResult:
            return ElicitResult(action="accept", content={"word": said(await ctx.elicit("Inner?", Word))})

        async with Client(inner, elicitation_callback=through) as client:
            done = text(await client.call_tool("ask", {}))
            found.update({lease.node: lease.address for lease in await app.attached.runtime.store.nodes()})
            return done

    found: dict[str, str] = {}
    app = framehold.asgi(outer, settings(redis, tmp_path))
    async with served(app) as url, Caller(url) as caller:
        reply = await caller.call("relay")
        assert reply.messages == ["Inner?"]
        assert (await caller.retry("relay", reply.token, reply.accept(word="a"))).text == "a"
        address = app.attached.runtime.heartbeat.address
    assert seen == ["hello"]
    assert found == {"n": address, "n_2": ""}


async def test_a_name_too_long_for_a_number_is_refused(redis: RedisServer, tmp_path: Path) -> None:
    """Cut short, it might be the name of another process."""
    one, two = (framehold.asgi(asks(name), settings(redis, tmp_path, "n" * 63)) for name in ("alpha", "beta"))
    async with one.lifespan():
        with pytest.raises(ConfigError, match="too long for the id of this one; nothing was started"):
            async with two.lifespan():
                raise AssertionError("it started")


def test_no_node_of_the_same_process_inherits_a_call() -> None:
    seals = LeaseSeal(Trust(()), "ns")
    peers = Peers("api-1", Trust(()), seals, MemoryStore(lambda: 0.0), system_clock())
    incarnation, boot = Incarnation("i"), Boot("b")
    assert peers._membership is not None
    for members, heir in (({"api-1": 1, "api-1_2": 1}, None), ({"api-1": 1, "api-1_2": 1, "api-2": 2}, "api-2")):
        records = (
            NodeRecord(NodeId(name), incarnation, boot, 1, f"http://127.0.0.1:{port}", "live", "", "", 1.0)
            for name, port in members.items()
        )
        peers._membership.fleet = Fleet.of(Member.of(record, seals) for record in records)
        for number in range(20):
            found = peers.heir(CallId(f"{number:032x}"))
            assert (found and found[0]) == heir
