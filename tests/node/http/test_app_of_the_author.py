"""What authors add to the app and take from it, as they do with the SDK's: middlewares, routes, mounted apps, state,
methods, and the id of a session."""

from __future__ import annotations

import asyncio
import gc
from contextvars import ContextVar
from typing import Any
from weakref import WeakValueDictionary

import httpx2
import pytest
from fastmcp import Context as FastMCPContext
from fastmcp import FastMCP
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import framehold
from framehold.config import Settings
from framehold.http.app import Application
from framehold_fleet.headers import CALL_ID
from framehold_fleet.identity.statements import Role
from tests.kit.client import Caller
from tests.kit.fastmcp_serving import hosted
from tests.kit.nodes import KEY, served
from tests.kit.processes import until
from tests.kit.proofs import stated
from tests.kit.serving import Word, said, server_of
from tests.node.http.test_relay import ACCEPT, INITIALIZE

pytestmark = pytest.mark.anyio


async def ask(ctx: Context) -> str:
    return said(await ctx.elicit("Which word?", Word))


def app_of(server: Any) -> Application:
    return framehold.asgi(server, Settings(node_id="n"))


class Noting:
    """An ASGI middleware that notes the path of each request, and what the app's state says."""

    def __init__(self, app: ASGIApp, seen: list[tuple[str, str, str]], name: str = "noting") -> None:
        self.app, self.seen, self.name = app, seen, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append((self.name, scope["path"], scope["app"].state.greeting))
        await self.app(scope, receive, send)


async def silent(*_: Any) -> Any:
    raise AssertionError("nothing is read and nothing is sent")


async def home(request: Request) -> Response:
    return PlainTextResponse(f"{request.app.state.greeting} from home")


async def test_what_is_added_to_the_app_is_served_beside_the_server() -> None:
    """A middleware is round MCP requests of both eras and round other routes, the last one outermost; probes have
    none."""
    seen: list[tuple[str, str, str]] = []
    app = app_of(server_of("added", ask))
    app.add_middleware(Noting, seen, name="inner")
    app.add_middleware(Noting, seen, name="outer")
    app.state.greeting = "hello"
    app.routes.append(Route("/home", home))
    app.router.add_route("/again", home)
    app.mount("/below", Starlette(routes=[Route("/home", lambda _: PlainTextResponse("mounted"))]))
    async with served(app) as url, Caller(url) as caller, httpx2.AsyncClient() as http:
        reply = await caller.call("ask")
        assert (await caller.retry("ask", reply.token, reply.accept(word="a"))).text == "a"
        assert (await http.post(url, json=INITIALIZE, headers=ACCEPT)).status_code == 200
        root = url.removesuffix("/mcp")
        texts = [(await http.get(root + path)).text for path in ("/home", "/again", "/below/home", "/healthz")]
        assert texts == ["hello from home", "hello from home", "mounted", "ok\n"]
    paths = ["/mcp", "/mcp", "/mcp", "/home", "/again", "/below/home"]
    assert seen == [(name, path, "hello") for path in paths for name in ("outer", "inner")]


async def test_no_route_of_the_author_sees_an_internal_header() -> None:
    """A router states with each request who it is. No route of the app gets it, neither one of HTTP nor one of
    WebSocket, nor what is mounted in it."""
    seen: list[Scope] = []

    class Noted:
        """An endpoint of either kind."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            seen.append(scope)

    app = framehold.asgi(server_of("added", ask), Settings(node_id="n", keys=(KEY,)))
    app.router.routes += [Route("/http", Noted()), WebSocketRoute("/socket", Noted())]
    app.mount("/below", Noted())
    badge = [stated(app.attached.runtime, Role.ROUTER, "c:1"), (CALL_ID, b"c" * 32)]
    async with app.lifespan():
        for kind, path in (("http", "/http"), ("websocket", "/socket"), ("http", "/below/"), ("websocket", "/below/")):
            scope = {"type": kind, "path": path, "method": "GET", "headers": [*badge, (b"x-own", b"1")]}
            await app(scope, silent, silent)
            assert seen.pop()["headers"] == [(b"x-own", b"1")], (kind, path)


@pytest.mark.parametrize("server", [server_of("names"), FastMCP("names")], ids=["MCPServer", "FastMCP"])
def test_it_has_all_names_of_a_starlette_app(server: Any) -> None:
    app = app_of(server)
    names = {name for name in dir(Starlette()) if not name.startswith("_")}
    assert names <= set(dir(app))
    assert not {name for name in names if getattr(app, name) != getattr(app._app, name)}
    app.debug = True
    assert app._app.debug and not hasattr(app, "nonsense")
    app.add_route("/home", home, name="home")
    assert app.url_path_for("home") == "/home"
    with pytest.raises(AttributeError, match="'Application' object has no attribute 'nonsense'"):
        app.nonsense()


class Limit(Exception):
    """What a rate limiter raises."""


class Limiting:
    """A middleware that lets no request with this header through. It raises inside of the exception handlers, as a
    dependency or a route would."""

    def __init__(self, app: ASGIApp, error: type[Exception]) -> None:
        self.app, self.error = app, error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (b"x-much", b"1") in scope["headers"]:
            raise self.error
        await self.app(scope, receive, send)


async def test_exception_handlers_of_the_app_are_asked() -> None:
    """For MCP requests as for routes: that of `Exception` stands round the middlewares."""

    async def limited(request: Request, error: Exception) -> Response:
        return PlainTextResponse(f"{type(error).__name__} at {request.url.path}", 429)

    async def raising(request: Request) -> Response:
        raise Limit

    app = app_of(server_of("limited", ask))
    app.add_exception_handler(Limit, limited)
    app.add_exception_handler(Exception, limited)
    app.add_middleware(Limiting, error=LookupError)
    app.add_route("/raising", raising)
    much = {"x-much": "1"}
    async with served(app) as url, Caller(url) as caller, httpx2.AsyncClient() as http:
        reply = await caller.call("ask")
        assert (await caller.retry("ask", reply.token, reply.accept(word="a"))).text == "a"
        root = url.removesuffix("/mcp")
        found = [await http.get(f"{root}/raising"), await http.get(f"{root}/raising", headers=much)]
        found.append(await http.post(url, json=INITIALIZE, headers=ACCEPT | much))
    texts = ["Limit at /raising", "LookupError at /raising", "LookupError at /mcp"]
    assert [(one.status_code, one.text) for one in found] == [(429, text) for text in texts]


@pytest.mark.parametrize("status", [429, 421, 403])
@pytest.mark.parametrize("headers", [None, [(b"x-own", b"1")]], ids=["none", "an iterator"])
async def test_a_middleware_may_leave_headers_out_or_give_an_iterator(
    status: int, headers: list[tuple[bytes, bytes]] | None
) -> None:
    """As ASGI allows: its response is sent as it is, also to a page, and whatever looks at it."""

    class Refusing:
        def __init__(self, app: ASGIApp) -> None:
            self.app = app

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            given = {} if headers is None else {"headers": iter(headers)}
            await send({"type": "http.response.start", "status": status, **given})
            await send({"type": "http.response.body", "body": b"no"})

    app = app_of(server_of("refusing", ask))
    app.add_middleware(Refusing)
    async with served(app) as url, httpx2.AsyncClient() as http:
        for more in ({}, {"origin": "http://localhost:1"}, {"origin": "http://evil.example"}):
            found = await http.post(url, json=INITIALIZE, headers=ACCEPT | more)
            assert (found.status_code, found.text) == (status, "no")
            assert found.headers.get("x-own") == (None if headers is None else "1")


async def test_an_instrumentor_that_replaces_the_stack_is_asked() -> None:
    app, seen = app_of(server_of("instrumented", ask)), list[tuple[str, str, str]]()
    app.state.greeting, build = "hello", app.build_middleware_stack
    app.build_middleware_stack = lambda: Noting(build(), seen)
    async with served(app) as url, Caller(url) as caller:
        assert (await caller.call("ask")).messages == ["Which word?"]
    assert seen == [("noting", "/mcp", "hello")]


async def test_a_stateless_fastmcp_server_has_no_stream_to_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """GET gets 405 as from FastMCP alone, while rounds and calls of 2025 are served."""
    monkeypatch.setattr("fastmcp.settings.stateless_http", True)
    server: FastMCP[Any] = FastMCP("stateless")

    @server.tool
    async def confirm(ctx: FastMCPContext) -> str:
        """Ask."""
        answer = await ctx.elicit("Sure?", bool)
        return str(answer.action)

    alone = server.http_app(path="/mcp")
    found = []
    async with served(alone) as url, httpx2.AsyncClient() as http:
        found.append(await http.get(url, headers={"accept": "text/event-stream"}, timeout=5))
    async with hosted(server) as caller, httpx2.AsyncClient() as http:
        found.append(await http.get(caller.url, headers={"accept": "text/event-stream"}, timeout=5))
        assert (await caller.tool("confirm", True)).text == "accept"
        assert (await http.post(caller.url, json=INITIALIZE, headers=ACCEPT)).status_code == 200
        page = {"origin": "http://localhost:1", "access-control-request-method": "POST"}
        assert (await http.options(caller.url, headers=page)).status_code == 200
    one, other = [(each.status_code, each.text, sorted(each.headers.get("allow", "").split(", "))) for each in found]
    assert one == other and one[0] == 405


class Client2025:
    """A session of 2025 that hides nothing of the wire."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self.http, self.url, self.id = http, url, ""

    async def begin(self) -> None:
        """Make the handshake."""
        result = await self.http.post(self.url, json=INITIALIZE, headers=ACCEPT)
        self.id = result.headers["mcp-session-id"]
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def send(self, message: dict[str, Any]) -> httpx2.Response:
        """One message of the session."""
        own = {"mcp-session-id": self.id, "mcp-protocol-version": "2025-11-25"}
        return await self.http.post(self.url, json=message, headers={**ACCEPT, **own})

    async def call(self, tool: str) -> str:
        """What a tool says that asks nothing."""
        params = {"name": tool, "arguments": {}}
        return (await self.send({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})).text


def sdk_server() -> Any:
    server: MCPServer[Any] = MCPServer("ids")

    @server.tool()
    async def tell(ctx: Context) -> str:
        """Tell the ids of this session."""
        request = ctx.request_context.request
        assert request is not None
        return f"<{request.headers['mcp-session-id']} {ctx.session._connection.session_id}>"

    return server


def fastmcp_server() -> Any:
    server: FastMCP[Any] = FastMCP("ids")

    @server.tool
    async def tell(ctx: FastMCPContext) -> str:
        """Tell the ids of this session."""
        request = ctx.request_context.request  # type: ignore[union-attr]  # over HTTP there is one
        assert request is not None
        return f"<{request.headers['mcp-session-id']} {ctx.session_id}>"

    return server


@pytest.mark.parametrize("made", [sdk_server, fastmcp_server])
async def test_client_and_server_know_a_session_by_one_id(made: Any) -> None:
    """It names this process, so that other nodes find it; once ended it is unknown."""
    app = app_of(made())
    async with served(app) as url, httpx2.AsyncClient() as http:
        client = Client2025(http, url)
        await client.begin()
        held = app.attached.runtime.heartbeat.lease
        assert client.id.startswith(f"l1.n.{held.boot}.")
        assert f"<{client.id} {client.id}>" in await client.call("tell")
        own = {"mcp-session-id": client.id}
        assert (await http.delete(url, headers=own)).status_code == 200
        assert (await client.send({"jsonrpc": "2.0", "id": 3, "method": "ping"})).status_code == 404


current: ContextVar[Any] = ContextVar("current")


class Visitor:
    """Who sends a request. `heard` are the visitors in whose contexts the request's `receive` was called."""

    def __init__(self, name: str) -> None:
        self.name, self.heard = name, list[str]()


class Naming:
    """A middleware that binds the visitor of each request, and asks who it is wherever it receives."""

    def __init__(self, app: ASGIApp, came: WeakValueDictionary[str, Visitor]) -> None:
        self.app, self.came = app, came

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = dict(scope["headers"])[b"x-visitor"].decode()
        visitor = self.came[name] = Visitor(name)
        current.set(visitor)

        async def heard() -> Message:
            visitor.heard.append(current.get().name)
            return await receive()

        await self.app(scope, heard, send)


@pytest.mark.parametrize("ordinary", [True, False])
async def test_each_request_receives_with_its_own_context_variables(ordinary: bool) -> None:
    """Also while it is watched for a disconnect, and nothing of it stays when it has ended."""
    came, ends = WeakValueDictionary[str, Visitor](), {name: asyncio.Event() for name in ("first", "ann", "ben")}

    async def waits(name: str) -> str:
        await ends[name].wait()
        return name

    app = framehold.asgi(server_of("waits", waits), Settings(node_id="n", ordinary=ordinary))
    app.add_middleware(Naming, came)

    def is_watched(name: str) -> bool:
        return name in came and len(came[name].heard) > 1

    async with served(app) as url, Caller(url) as caller:

        def calling(name: str) -> asyncio.Task[Any]:
            return asyncio.create_task(caller.call("waits", arguments={"name": name}, headers={"x-visitor": name}))

        ends["first"].set()
        await calling("first")
        ann, ben = calling("ann"), calling("ben")
        await until(lambda: is_watched("ann") and is_watched("ben"), "the watches of both")
        assert (set(came["ann"].heard), set(came["ben"].heard)) == ({"ann"}, {"ben"})
        ends["ann"].set()
        await ann
        await until(lambda: not gc.collect() and "ann" not in came, "the end of what is bound for the first request")
        assert "ben" in came
        ends["ben"].set()
        assert (await ben).text == "ben"


class Impatient:
    """A middleware that limits the time of each request."""

    def __init__(self, app: ASGIApp, limits: list[asyncio.Timeout]) -> None:
        self.app, self.limits = app, limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with asyncio.timeout(None) as limit:
                self.limits.append(limit)
                await self.app(scope, receive, send)
        except TimeoutError:
            await JSONResponse({"mine": "too late"}, 504)(scope, receive, send)


class ImpatientDispatch(BaseHTTPMiddleware):
    """The same as a class of Starlette's. The app runs in a task of its own, which only the end of the server
    cancels."""

    def __init__(self, app: ASGIApp, limits: list[asyncio.Timeout]) -> None:
        super().__init__(app)
        self.limits = limits

    async def dispatch(self, request: Request, call_next: Any) -> Response:
        try:
            async with asyncio.timeout(None) as limit:
                self.limits.append(limit)
                response: Response = await call_next(request)
                return response
        except TimeoutError:
            return JSONResponse({"mine": "too late"}, 504)


def end_server() -> None:
    """Cancel what is served, as the HTTP server does at its end."""
    serving = [task for task in asyncio.all_tasks() if task.get_name() == "framehold-request"]
    assert serving
    for task in serving:
        task.cancel()


@pytest.mark.parametrize("ordinary", [True, False])
@pytest.mark.parametrize("middleware", [Impatient, ImpatientDispatch])
async def test_a_middleware_replies_itself_to_a_request_that_it_cancels(middleware: Any, ordinary: bool) -> None:
    """A marked call goes on with the next retry. A request that the end of the server cancels is told so."""
    entered, gate, limits = asyncio.Event(), asyncio.Event(), list[asyncio.Timeout]()

    @framehold.reentrant
    async def slow(ctx: Context) -> str:
        word = said(await ctx.elicit("Which word?", Word))
        entered.set()
        await gate.wait()
        return word

    app = framehold.asgi(server_of("slow", slow), Settings(node_id="n", ordinary=ordinary))
    app.add_middleware(middleware, limits=limits)
    async with served(app) as url, Caller(url) as caller:
        await caller.call("slow")
        asked = await caller.call("slow")
        for ends in (False, True):
            limits.clear()
            retrying = asyncio.create_task(caller.retry("slow", asked.token, asked.accept(word="w"), request_id=7))
            await until(lambda: entered.is_set() and limits, "the retry, in its round")
            if not ends:
                limits[-1].reschedule(0.0)
                reply = await retrying
                assert (reply.status, reply.message) == (504, {"mine": "too late"})
                continue
            end_server()
            reply = await retrying
            assert (reply.status, reply.message["id"], int(reply.headers["retry-after"]) > 0) == (503, 7, True)
            assert "this node ended before it answered" in reply.text and "session" not in reply.text
        gate.set()
        assert (await caller.retry("slow", asked.token, asked.accept(word="w"))).text == "w"
