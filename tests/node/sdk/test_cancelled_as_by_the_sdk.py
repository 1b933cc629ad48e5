"""A handler that is cancelled, whatever the cause: it ends as the same handler ends on the SDK alone."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR

import framehold
from framehold.config import Settings
from framehold.engine import tasks
from framehold.engine.runtime import Runtime
from framehold.engine.slot import Slot
from framehold.sdk.invocation import HandlerOutcome
from framehold_core import events as ev
from framehold_core.call import Phase
from framehold_core.value import replace
from tests.kit.engine import turns
from tests.kit.processes import until
from tests.kit.serving import Word

pytestmark = pytest.mark.anyio
SOON = 20.0
"""Seconds that something which needs no time may take on a busy machine."""


class Scene:
    """What a handler did, and what it waits for. `struck` is set when the cancellation has reached the handler; what it
    shields goes on when `go` is set."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.running, self.struck, self.go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.open = False

    async def middleware(self, ctx: Any, call_next: Any) -> Any:
        """A session of a database around each call, as authors have it."""
        if ctx.method != "tools/call":
            return await call_next(ctx)
        self.open = True
        try:
            return await call_next(ctx)
        finally:
            self.open = False
            self.log.append("middleware closed")

    async def wait(self, ctx: Context | None) -> None:
        self.running.set()
        try:
            await (ctx.elicit("Which word?", Word) if ctx is not None else anyio.sleep_forever())
        finally:
            self.struck.set()

    async def shield(self, ctx: Context | None) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self.wait, ctx)
            with anyio.CancelScope(shield=True):
                self.log.append("debit")
                await self.go.wait()
                self.log.append("credit")
            await anyio.sleep_forever()

    async def thread(self, ctx: Context | None) -> None:
        def work() -> None:
            for _ in range(2000):
                try:
                    anyio.from_thread.check_cancelled()
                except BaseException:
                    self.log.append("the thread stops")
                    raise
                time.sleep(0.005)
            self.log.append("the thread went on")

        async with anyio.create_task_group() as group:
            group.start_soon(self.wait, ctx)
            try:
                await anyio.to_thread.run_sync(work)
            finally:
                self.log.append("the tool ends")

    async def cleanup(self, ctx: Context | None) -> None:
        try:
            await self.wait(ctx)
        finally:
            with anyio.CancelScope(shield=True):
                await self.go.wait()
                self.log.append("cleaned up" + (", database open" if self.open or ctx is not None else ""))

    async def swallow(self, ctx: Context | None) -> None:
        for _ in range(3):
            try:
                await (self.wait(ctx) if not self.log else anyio.sleep_forever())
            except asyncio.CancelledError:
                self.log.append("swallowed")
        await anyio.sleep_forever()


KINDS = ("shield", "thread", "cleanup", "swallow")


async def _never(context: Any, params: Any) -> Any:
    await anyio.sleep_forever()


class Request:
    """A call of a client that answers no question. In one process the client's scope is the server's too, so it leaves
    by a scope: a task that is cancelled would be cut off, and the server in it."""

    def __init__(self, client: Client, kind: str, asks: bool) -> None:
        self._scope = anyio.CancelScope()
        self._task = asyncio.create_task(self._call(client, {"kind": kind, "asks": asks}))

    async def _call(self, client: Client, arguments: dict[str, Any]) -> None:
        with self._scope, contextlib.suppress(MCPError):
            await client.call_tool("work", arguments)

    def leave(self) -> None:
        self._scope.cancel()

    async def end(self) -> None:
        self.leave()
        await self._task


def server_of(scene: Scene) -> MCPServer[Any]:
    """A server with one tool, which does the named thing and asks if it is told to."""
    server: MCPServer[Any] = MCPServer("scene")
    server._lowlevel_server.middleware.append(scene.middleware)

    @server.tool()
    @framehold.reentrant
    async def work(kind: str, asks: bool, ctx: Context) -> str:
        try:
            await getattr(scene, kind)(ctx if asks else None)
        finally:
            scene.log.append("tool ended")
        return "done"

    return server


@asynccontextmanager
async def calling(server: MCPServer[Any], mode: Any, kind: str, asks: bool) -> AsyncIterator[Request]:
    async with Client(server, mode=mode, elicitation_callback=_never) as client:
        request = Request(client, kind, asks)
        try:
            yield request
        finally:
            await request.end()


async def log_of(scene: Scene, asks: bool) -> list[str]:
    """What was done, when all is over. Where the handler was parked, no middleware was around it."""
    await asyncio.wait_for(scene.struck.wait(), SOON)
    await turns(20)
    scene.go.set()
    await until(lambda: "tool ended" in scene.log and "middleware closed" in scene.log, f"the end of it: {scene.log}")
    return [line for line in scene.log if not asks or line != "middleware closed"]


async def on_the_sdk_alone(kind: str, asks: bool) -> list[str]:
    """What the handler does where its client leaves: with a question only a session of 2025 can be in its midst."""
    scene = Scene()
    async with calling(server_of(scene), "legacy" if asks else "2026-07-28", kind, asks) as request:
        await asyncio.wait_for(scene.running.wait(), SOON)
        request.leave()
        return await log_of(scene, asks)


async def _leaves(runtime: Runtime, slot: Slot, request: Request) -> None:
    request.leave()


async def _ends(runtime: Runtime, slot: Slot, request: Request) -> None:
    runtime.tasks.spawn(runtime.end())


async def _overruns(runtime: Runtime, slot: Slot, request: Request) -> None:
    runtime.feed(slot, ev.Overran())


async def _is_stopped(runtime: Runtime, slot: Slot, request: Request) -> None:
    assert runtime.stop(slot, HandlerOutcome(error=MCPError(INTERNAL_ERROR, "an operator cancelled it"))) is not None


async def _expires(runtime: Runtime, slot: Slot, request: Request) -> None:
    slot.call = replace(slot.call, expires=0.0)
    runtime.feed(slot, ev.Expired())


async def _is_evicted(runtime: Runtime, slot: Slot, request: Request) -> None:
    runtime.feed(slot, ev.Evict("evicted"))


async def _parks(runtime: Runtime, slot: Slot, request: Request) -> None:
    """Nothing more: a rehearsed frame is dropped when it asks, one of strategy replay, too."""


Cause = Callable[[Runtime, Slot, Request], Awaitable[None]]
RUNNING: dict[str, Cause] = {"left": _leaves, "drain": _ends, "overran": _overruns, "operator": _is_stopped}
PARKED: dict[str, Cause] = {"expired": _expires, "evicted": _is_evicted, "drain": _ends, "operator": _is_stopped}
DROPPED: dict[str, dict[str, Any]] = {"rehearsed": {"rehearse": True}, "replayed": {"strategy": "replay"}}


async def cancelled(kind: str, asks: bool, cause: Cause, **settings: Any) -> list[str]:
    """What the handler does in a frame that ends for this cause."""
    scene = Scene()
    server = server_of(scene)
    runtime = framehold.attach(server, Settings(node_id="scene", **settings)).runtime
    async with calling(server, "2026-07-28", kind, asks) as request:
        await asyncio.wait_for(scene.running.wait(), SOON)
        slots = list(runtime.table)
        if cause is not _parks:
            if asks:
                await until(lambda: slots[0].call.phase is Phase.PARKED, "the frame to be parked")
            await cause(runtime, slots[0], request)
        return await log_of(scene, asks and cause is not _parks)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cause", RUNNING.values(), ids=RUNNING.keys())
async def test_a_running_handler_ends_before_the_middleware_around_it(kind: str, cause: Cause) -> None:
    """What it shields is whole, its thread is told, its cleanup has what the middleware gives, and it is cancelled
    until it ends."""
    assert await cancelled(kind, False, cause) == await on_the_sdk_alone(kind, False)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cause", PARKED.values(), ids=PARKED.keys())
async def test_a_parked_handler_ends_as_one_whose_client_left(kind: str, cause: Cause) -> None:
    assert await cancelled(kind, True, cause) == await on_the_sdk_alone(kind, True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", DROPPED.values(), ids=DROPPED.keys())
async def test_a_handler_whose_frame_goes_after_its_round_ends_alike(kind: str, settings: dict[str, Any]) -> None:
    """And its request leaves through the middleware after it."""
    assert await cancelled(kind, True, _parks, **settings) == [*await on_the_sdk_alone(kind, True), "middleware closed"]


async def test_nobody_waits_for_ever_for_a_handler_that_shields_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a bounded time the request leaves, and the node counts the handler that runs on."""
    monkeypatch.setattr(tasks, "CANCEL_TIMEOUT", 0.05)
    scene = Scene()
    server = server_of(scene)
    runtime = framehold.attach(server, Settings(node_id="scene")).runtime
    async with calling(server, "2026-07-28", "shield", False) as request:
        await asyncio.wait_for(scene.running.wait(), SOON)
        request.leave()
        await until(lambda: "middleware closed" in scene.log, "the request to leave")
        assert "credit" not in scene.log and runtime.counts["unburied"] == 1
        assert await log_of(scene, False) == ["debit", "middleware closed", "credit", "tool ended"]
