"""A router's pages over one fake node, and what lies between them and the browser: it may cut, keep or hold up what is
sent.

The law: what the router says is its own; only whether, when and in which pieces it comes is decided here. Every request
of the browser is noted.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.kit.browser import Screen
from tests.kit.operators import TOKEN
from tests.router.cast import Cast, guarded, said

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
STREAM = "/api/v1/stream"
HIDE = """(hidden) => {
  Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""
"""Hides a page, or shows it again."""
SOON = 8.0


class Line:
    """The way to one router. `root` is its address."""

    def __init__(self) -> None:
        self.root = ""
        self.parked = 7
        """Calls that the node says it holds: what the page shows."""
        self.token = TOKEN
        """The router's admin token."""
        self.stream = "comes"
        """Or "refused", "silent" (it is answered, and nothing comes), or a text: what comes in its place, in pieces."""
        self.pieces: list[bytes] = []
        self.way = "open"
        """Or "cut" (whoever asks is cut off), or "stopped" (whoever asks is never answered)."""
        self.slow = ""
        """What is answered when the way is mended."""
        self.asked: list[web.Request] = []
        self._streams: dict[asyncio.Task[Any] | None, web.Request] = {}
        self._again = asyncio.Event()

    @property
    def now(self) -> list[asyncio.Transport]:
        """Streams that are open."""
        held = [one.transport for one in self._streams.values()]
        return [one for one in held if one is not None and not one.is_closing()]

    def cut(self, way: str = "cut") -> None:
        """Let nothing through any more; what is open ends where the way is cut."""
        self.way = way
        self._again = asyncio.Event()
        for task in self._streams:
            if task is not None:
                task.cancel()

    def mend(self) -> None:
        self.way, self.stream, self.slow = "open", "comes", ""
        self._again.set()

    def paths(self, since: int = 0) -> list[str]:
        """What was asked for of the API."""
        return [one.path for one in self.asked[since:] if one.path.startswith("/api/")]

    @web.middleware
    async def between(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.asked.append(request)
        if self.way == "stopped" or request.path == self.slow:
            await self._again.wait()
        if self.way == "cut":
            return _gone(request)
        if request.path == STREAM:
            return await self._streamed(request, handler)
        return await handler(request)

    async def _streamed(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        task = asyncio.current_task()
        self._streams[task] = request
        try:
            if self.stream == "refused":
                return web.Response(status=503, text="{}")
            if self.stream == "comes":
                return await handler(request)
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            for piece in self.pieces if self.stream == "pieces" else ():
                await response.write(piece)
                await asyncio.sleep(0.02)
            await asyncio.Event().wait()
            return response
        except asyncio.CancelledError:
            return _gone(request)
        finally:
            del self._streams[task]

    async def tells(self, _: web.Request) -> web.StreamResponse:
        """The node, of itself."""
        return web.json_response(said("harbour", parked=self.parked, boot="b-lease"))


def _gone(request: web.Request) -> web.Response:
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@asynccontextmanager
async def line(token: str | None = TOKEN, **guard: Any) -> AsyncIterator[Line]:
    """A router with an admin token, and the way to it. `guard`: further arguments of `guarded`."""
    made = Line()
    async with AsyncExitStack() as stack:
        cast = Cast(stack)
        await cast.node("harbour", made.tells)
        sources = dataclasses.replace(await cast.sources(), clock=time.time)
        app = guarded(sources, token, **guard)
        app.middlewares.insert(0, made.between)
        server = TestServer(app, host="127.0.0.1")
        await stack.enter_async_context(server)
        made.root = f"http://127.0.0.1:{server.port}"
        yield made
        made.mend()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON):
        while not true():
            await asyncio.sleep(0.01)


async def says(screen: Screen, word: str) -> None:
    """What the page says of its connection."""
    await screen.page.locator(".link").get_by_text(word, exact=True).wait_for()


async def parked(screen: Screen, count: int) -> None:
    """What the page says is parked."""
    await screen.until(f"""() => document.querySelector("main .lead")?.textContent.includes(" {count} parked call")""")


async def later(screen: Screen, seconds: float) -> None:
    """That much time goes by for the page; the router is asked meanwhile as ever."""
    await screen.page.clock.fast_forward(int(seconds * 1000))


async def comes_to_say(screen: Screen, word: str) -> None:
    """Put the clock forward until it does, slowly enough that what is asked for meanwhile is answered in time."""
    async with asyncio.timeout(2 * SOON):
        while await screen.page.locator(".link [role=status]").inner_text() != word:
            await later(screen, 1.3)
            await asyncio.sleep(0.15)
