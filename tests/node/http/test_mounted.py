"""`framehold.asgi` inside another app: in Starlette and in FastAPI, beside routes and behind middleware of theirs."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import ElicitRequestParams, ElicitResult, TextContent
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

import framehold
from framehold.config import Settings
from framehold.http.app import Application
from tests.kit.client import Caller
from tests.kit.nodes import KEY, served
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word, said

pytestmark = pytest.mark.anyio
_asker: contextvars.ContextVar[str] = contextvars.ContextVar("asker")


def weather(seen: list[str], name: str = "weather", **settings: Any) -> Application:
    """An app whose tool asks twice and reports between, and whose server notes its start and its end."""

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[str]:
        seen.append(f"{name} began")
        try:
            yield name
        finally:
            seen.append(f"{name} ended")

    server: MCPServer[Any] = MCPServer(name, lifespan=lifespan)

    @server.tool()
    async def ask(ctx: Context) -> str:
        """Ask for two words."""
        try:
            one = said(await ctx.elicit("First?", Word))
            await ctx.report_progress(1, 2, "half of it")
            two = said(await ctx.elicit(f"{one}, and then?", Word))
        except asyncio.CancelledError:
            seen.append(f"{name} cancelled")
            raise
        return f"{ctx.request_context.lifespan_context}: {one} {two}"

    @server.tool()
    async def recite() -> str:
        """Say more than a parent sends as it is."""
        return "rain " * 1000

    return framehold.asgi(server, Settings(node_id="n", **settings))


def home(_: Request) -> Response:
    return PlainTextResponse("the parent's own")


def in_starlette(app: Application, **options: Any) -> Starlette:
    return Starlette(routes=[Route("/", home), Mount("/sub", app), Route("/last", home)], **options)


def in_fastapi(app: Application, **options: Any) -> FastAPI:
    parent = FastAPI(**options)

    @parent.get("/")
    async def root() -> dict[str, str]:
        """Say whose it is."""
        return {"whose": "the parent's own"}

    parent.mount("/sub", app)
    return parent


PARENTS = pytest.mark.parametrize("mounted", [in_starlette, in_fastapi], ids=["starlette", "fastapi"])
Mounted = Callable[..., Any]


def beneath(url: str, prefix: str = "/sub") -> str:
    """The address of the mounted server."""
    return url.replace("/mcp", f"{prefix}/mcp")


async def completes(caller: Caller, name: str = "weather") -> None:
    """The tool asks twice, and is told."""
    reply = await caller.call("ask", meta={"progressToken": "p"})
    reply = await caller.retry("ask", reply.token, reply.accept(word="a"), meta={"progressToken": "p"})
    assert [event["params"]["message"] for event in reply.events] == ["half of it"]
    assert reply.messages == ["a, and then?"]
    assert (await caller.retry("ask", reply.token, reply.accept(word="b"))).text == f"{name}: a b"


async def of_2025(url: str, name: str = "weather") -> None:
    """The same with the official client of 2025, whose session is one stream."""

    async def answer(context: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"word": params.message[0]})

    async def progress(progress: float, total: float | None, message: str | None) -> None:
        steps.append(message)

    steps: list[str | None] = []
    async with Client(url, mode="legacy", elicitation_callback=answer) as client:
        result = await client.call_tool("ask", {}, progress_callback=progress)
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert (block.text, steps) == (f"{name}: F F", ["half of it"])


@PARENTS
async def test_mounted_with_the_parents_lifespan(mounted: Mounted, redis: RedisServer, tmp_path: Path) -> None:
    """`lifespan=app.lifespan`: it begins before the first request and ends with the parent. What is parked then is torn
    down, and the node's lease is given back."""
    seen: list[str] = []
    app = weather(seen, store_url=redis.url, keys=(KEY,), namespace=tmp_path.name)
    with redis.client() as client:
        async with served(mounted(app, lifespan=app.lifespan)) as url, Caller(beneath(url)) as caller:
            assert seen == ["weather began"]
            await completes(caller)
            await of_2025(beneath(url))
            assert (await caller.call("ask")).messages == ["First?"]
            assert client.exists(f"fh:{tmp_path.name}:node:n")
        assert not client.exists(f"fh:{tmp_path.name}:node:n")
    assert seen == ["weather began", "weather cancelled", "weather ended"]


@PARENTS
def test_mounted_without_a_lifespan_it_ends_with_the_loop(
    mounted: Mounted, redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As uvicorn ends it: what is parked is torn down and the server's lifespan is left, without anybody waiting for
    anything. Where a store is shared, the log has said from the start what that costs."""
    seen: list[str] = []

    async def session() -> None:
        async with served(mounted(app)) as url, Caller(beneath(url)) as caller:
            assert (await caller.call("ask")).messages == ["First?"]

    app = weather(seen, store_url=redis.url, keys=(KEY,), namespace=tmp_path.name)
    with asyncio.Runner() as runner:
        runner.run(session())
    assert seen == ["weather began", "weather cancelled", "weather ended"]
    (result,) = [one.getMessage() for one in caplog.records if "lifespan" in one.getMessage()]
    assert "its lease runs out by itself" in result and "lifespan=app.lifespan" in result


async def test_the_request_that_starts_the_app_shares_no_context_variable_with_the_lifespan() -> None:
    """The lifespan serves all requests: what it starts must not act in the name of the first one's user."""
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[None]:
        seen.append(_asker.get("nobody"))
        yield

    app = framehold.asgi(MCPServer("lone", lifespan=lifespan), Settings(node_id="n"))

    async def binding(scope: Any, receive: Any, send: Any) -> None:
        _asker.set("alice")
        await app(scope, receive, send)

    async with served(in_starlette(binding)) as url, httpx2.AsyncClient() as http:  # type: ignore[arg-type]
        await http.get(beneath(url).replace("/mcp", "/healthz"))
    assert seen == ["nobody"]


@PARENTS
async def test_a_start_that_fails_fails_the_parents(mounted: Mounted) -> None:
    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[None]:
        raise RuntimeError("no database")
        yield

    app = framehold.asgi(MCPServer("broken", lifespan=lifespan), Settings(node_id="n"))
    parent = mounted(app, lifespan=app.lifespan)
    with pytest.raises(RuntimeError, match="no database"):
        async with parent.router.lifespan_context(parent):
            pass


@PARENTS
async def test_the_parents_own_routes_stay(mounted: Mounted) -> None:
    """Beside the mounted server, whatever they are called: its probes are beneath its prefix."""
    app = weather([])
    async with served(mounted(app, lifespan=app.lifespan)) as url, httpx2.AsyncClient() as http:
        root = url.removesuffix("/mcp")
        assert "the parent's own" in (await http.get(f"{root}/")).text
        for path in ("/mcp", "/healthz", "/admin/node"):
            assert (await http.get(root + path)).status_code == 404
        assert (await http.get(f"{root}/sub/healthz")).text == "ok\n"


async def timed(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """A middleware of an author's, of the kind that runs the app in a task of its own."""
    response = await call_next(request)
    response.headers["x-parent"] = "was here"
    return response


async def test_behind_the_parents_middleware() -> None:
    """CORS, compression and a function: calls park, streams come event by event, what is long is compressed, and a
    browser is told what the parent allows."""
    app = weather([])
    of_parent = [
        Middleware(CORSMiddleware, allow_origins=["http://localhost:6274"], allow_headers=["x-own"]),
        Middleware(GZipMiddleware, minimum_size=500),
    ]
    parent = in_fastapi(app, lifespan=app.lifespan, middleware=of_parent)
    parent.middleware("http")(timed)
    async with served(parent) as url, Caller(beneath(url)) as caller:
        await completes(caller)
        await of_2025(caller.url)
        envelope = caller.envelope("tools/call", {"name": "recite", "arguments": {}})
        headers = {**envelope.headers, "accept-encoding": "gzip", "origin": "http://localhost:6274"}
        async with httpx2.AsyncClient() as http:
            async with http.stream("POST", caller.url, json=envelope.body, headers=headers) as result:
                packed = b"".join([piece async for piece in result.aiter_raw()])
            assert result.headers["content-encoding"] == "gzip" and b"rain rain" in gzip.decompress(packed)
            assert result.headers["x-parent"] == "was here"
            assert result.headers.get_list("access-control-allow-origin") == ["http://localhost:6274"]
            asks = {"access-control-request-method": "POST", "access-control-request-headers": "x-own"}
            preflight = await http.options(caller.url, headers={"origin": "http://localhost:6274", **asks})
            assert "x-own" in preflight.headers["access-control-allow-headers"]


def nested(app: Application, **options: Any) -> Starlette:
    """A mount with a slash at its end, in another one, behind a middleware."""
    inner = Starlette(routes=[Mount("/deep/", GZipMiddleware(app))], middleware=[Middleware(GZipMiddleware)])
    return Starlette(routes=[Route("/", home), Mount("/sub", inner)], **options)


def through_an_inner(app: Application, **options: Any) -> Starlette:
    """The lifespan of the inner app runs that of the mounted one."""
    inner = Starlette(routes=[Mount("/deep", app)], lifespan=app.lifespan)
    return Starlette(routes=[Mount("/sub", inner)], lifespan=inner.router.lifespan_context)


PREFIXES: dict[str, tuple[Mounted, str]] = {
    "starlette": (in_starlette, "/sub"),
    "fastapi": (in_fastapi, "/sub"),
    "nested": (nested, "/sub/deep"),
    "through an inner app": (through_an_inner, "/sub/deep"),
    "at the root": (lambda app, **options: Starlette(routes=[Mount("/", app)], **options), ""),
    "in characters of a path": (lambda app, **options: Starlette(routes=[Mount("/w e", app)], **options), "/w%20e"),
}


@pytest.mark.parametrize("own", [False, True], ids=["its lifespan", "a lifespan of the parent's"])
@pytest.mark.parametrize("name", PREFIXES)
async def test_a_node_knows_its_prefix_before_its_first_request(name: str, own: bool) -> None:
    """Routers ask for its pages there: else they take it for dead."""
    app = weather([])
    parent_of, prefix = PREFIXES[name]

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        async with app.lifespan():
            yield

    parent = parent_of(app, lifespan=lifespan if own else app.lifespan)
    async with served(parent):
        assert app.attached.runtime.stats().prefix == prefix


async def test_a_prefix_that_no_route_names_is_told_by_the_first_request() -> None:
    app = weather([])
    inner = in_starlette(app)

    async def opaque(scope: Any, receive: Any, send: Any) -> None:
        await inner(scope, receive, send)

    async with served(opaque) as url, httpx2.AsyncClient() as http:
        assert app.attached.runtime.stats().prefix is None
        await http.get(beneath(url).replace("/mcp", "/healthz"))
        assert app.attached.runtime.stats().prefix == "/sub"
