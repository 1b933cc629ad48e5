"""The ways to the tools of one server: a good request on each, and what is said to any other."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Annotated, Any, cast

from fastmcp import Context as FastContext
from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken as FastAccessToken
from fastmcp.server.auth import TokenVerifier, require_scopes
from mcp.server import MCPServer
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context
from mcp.server.runner import serve_dual_era_loop
from mcp.server.stdio import stdio_server
from pydantic import AnyHttpUrl, Field
from starlette.applications import Starlette
from starlette.routing import Mount

import framehold
from framehold.config import Settings
from framehold.http.app import Application
from framehold_fleet.members.address import address_of
from tests.kit.beside_sdk import RawRequest, RawResponse, raw, send
from tests.kit.client import Caller, accepted
from tests.kit.nodes import served
from tests.kit.processes import DEADLINE
from tests.kit.serving import Word, said
from tests.router.wires import KEY, router

Send = Callable[[RawRequest], Awaitable[RawResponse]]
MAX_BODY = 50_000
REVISION_2025 = "2025-11-25"
ANN, BEN = "Bearer ann/use", "Bearer ben/use"


class Verifier:
    """Knows tokens of the form `user/scope`, some of them expired."""

    async def verify_token(self, token: str) -> AccessToken | None:
        user, _, scope = token.partition("/")
        if user not in ("ann", "ben"):
            return None
        expires = 1 if scope == "expired" else None
        return AccessToken(token=token, client_id="app", subject=user, scopes=[scope], expires_at=expires)


class FastVerifier(TokenVerifier):
    """The same for FastMCP."""

    async def verify_token(self, token: str) -> FastAccessToken | None:
        found = await Verifier().verify_token(token)
        return None if found is None else FastAccessToken(**found.model_dump(exclude_none=True))


Region = Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]
"""A parameter that is mirrored in a header."""
Ran = list[str]
"""What of the handlers of a server has run."""


def of_the_sdk(ran: Ran) -> MCPServer[Any]:
    """A server with authentication and a tool that may ask."""
    url = AnyHttpUrl("http://127.0.0.1:9")
    auth = AuthSettings(issuer_url=url, resource_server_url=url, required_scopes=["use"], validate_token_resource=False)
    server: MCPServer[Any] = MCPServer("guarded", token_verifier=Verifier(), auth=auth)

    @server.tool()
    async def visit(region: Region, asks: bool, ctx: Context) -> str:
        """Visit a region, asking why or not."""
        ran.append(region)
        if not asks:
            return region
        await ctx.report_progress(1, 2, "there")
        answer = said(await ctx.elicit("Why?", Word))
        ran.append(answer)
        return f"{region}: {answer}"

    return server


def of_fastmcp(ran: Ran) -> FastMCP[Any]:
    """The same server with FastMCP."""
    server: FastMCP[Any] = FastMCP("guarded", auth=FastVerifier(required_scopes=["use"]))

    @server.tool
    async def visit(region: Region, asks: bool, ctx: FastContext) -> str:
        """Visit a region, asking why or not."""
        ran.append(region)
        if not asks:
            return region
        await ctx.report_progress(1, 2, "there")
        answer = said(await ctx.elicit("Why?", Word))
        ran.append(answer)
        return f"{region}: {answer}"

    @server.tool(auth=require_scopes("admin"))
    async def delete() -> str:
        """Delete everything."""
        ran.append("deleted")
        return "deleted"

    return server


Make = Callable[[Ran], Any]


@dataclass(frozen=True)
class Way:
    """One way to the tools, and its good requests: `first` begins a call and ends it, `retry` ends one that waits.

    - `send`: send bytes on this way, and wait for the response
    - `ran`: what of the server's handlers has run
    - `token`, `answers`: the parameters of a retry that have its token and its answers
    - `unserved`: which of them, good on another way, is not served on this one
    """

    name: str
    ran: Ran
    send: Send
    first: RawRequest | None
    retry: RawRequest | None
    token: str = "requestState"
    answers: str = "inputResponses"
    unserved: str = ""

    def good(self) -> dict[str, RawRequest]:
        """The requests that this way has, by name."""
        found = {"first": self.first, "retry": self.retry}
        return {name: request for name, request in found.items() if request is not None}


_ASKS = {"name": "visit", "arguments": {"region": "north", "asks": True}}
_ASKS_NOT = {"name": "visit", "arguments": {"region": "north", "asks": False}}
_REGION = {"mcp-param-region": "north", "mcp-name": "visit"}


def _app(make: Make) -> tuple[Application, Ran]:
    ran: Ran = []
    return framehold.asgi(make(ran), Settings(node_id="ways", keys=(KEY,), sagas=True, max_body=MAX_BODY)), ran


def _request(caller: Caller, method: str, params: dict[str, Any], **more: str) -> RawRequest:
    return raw(caller.envelope(method, params, headers={**_REGION, "authorization": ANN, **more}))


async def _calls(caller: Caller, at: Send) -> tuple[RawRequest, RawRequest]:
    """The first request of a call, and the retry of another one that waits."""
    asked = (await at(_request(caller, "tools/call", _ASKS))).message["result"]
    answers = {key: accepted(word="aye") for key in asked["inputRequests"]}
    params = {**_ASKS, "requestState": asked["requestState"], "inputResponses": answers}
    return _request(caller, "tools/call", _ASKS_NOT), _request(caller, "tools/call", params)


async def _sagas(caller: Caller, at: Send) -> tuple[RawRequest, RawRequest]:
    """The same of sagas."""
    asked = (await at(_request(caller, "tools/callSaga", _ASKS))).message["result"]
    steps = [{"stepId": step["stepId"], "result": accepted(word="aye")} for step in asked["steps"]]
    params = {"sagaToken": asked["sagaToken"], "completedSteps": steps}
    return _request(caller, "tools/callSaga", _ASKS_NOT), _request(caller, "tools/resumeSaga", params)


@asynccontextmanager
async def call(make: Make, change: Callable[[RawRequest], RawRequest] = lambda request: request) -> AsyncIterator[Way]:
    """`tools/call` of 2026-07-28, each request after a `change`."""
    app, ran = _app(make)
    async with served(app) as url:

        async def at(request: RawRequest) -> RawResponse:
            return await send(url, request)

        first, retry = map(change, await _calls(Caller(url), at))
        yield Way("call", ran, at, first, retry)


@asynccontextmanager
async def chunked(make: Make) -> AsyncIterator[Way]:
    """Bodies without a length."""
    async with call(make, lambda request: replace(request, chunked=True)) as way:
        yield replace(way, name="chunked")


@asynccontextmanager
async def streamed(make: Make) -> AsyncIterator[Way]:
    """Responses that are event streams, since the tool reports progress."""
    async with call(make, lambda request: request.meta(progressToken="p")) as way:
        yield replace(way, name="streamed")


@asynccontextmanager
async def mounted(make: Make) -> AsyncIterator[Way]:
    """Framehold's app within another one."""
    app, ran = _app(make)
    parent = Starlette(routes=[Mount("/sub", app)], lifespan=app.lifespan)
    async with served(parent) as url:

        async def at(request: RawRequest) -> RawResponse:
            return await send(url, replace(request, path="/sub" + request.path))

        first, retry = await _calls(Caller(url), at)
        yield Way("mounted", ran, at, first, retry)


@asynccontextmanager
async def routed(make: Make) -> AsyncIterator[Way]:
    """Chunked bodies, through a router of the fleet."""
    app, ran = _app(make)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(served(app))
        address = address_of(url.removesuffix("/mcp"))
        assert address is not None
        front = await stack.enter_async_context(router(address, max_body=MAX_BODY, boots=()))

        async def at(request: RawRequest) -> RawResponse:
            return await send(f"http://127.0.0.1:{front.port}/mcp", replace(request, chunked=bool(request.body)))

        first, retry = await _calls(Caller(url), at)
        yield Way("routed", ran, at, first, retry)


@asynccontextmanager
async def saga(make: Make) -> AsyncIterator[Way]:
    """Sagas of 2026-07-28."""
    app, ran = _app(make)
    async with served(app) as url:

        async def at(request: RawRequest) -> RawResponse:
            return await send(url, request)

        first, retry = await _sagas(Caller(url), at)
        yield Way("saga", ran, at, first, retry, "sagaToken", "completedSteps")


@asynccontextmanager
async def _session(make: Make) -> AsyncIterator[tuple[Ran, Caller, Callable[[RawRequest], RawRequest], Send]]:
    """A session of 2025: how a request becomes one of it, and how it is sent."""
    app, ran = _app(make)
    async with served(app) as url:
        caller = Caller(url)
        hello = {"protocolVersion": REVISION_2025, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
        plain = {"mcp-method", "mcp-name", "mcp-param-region", "mcp-protocol-version"}
        greeting = _request(caller, "initialize", hello).without(*plain).params(_meta=...)
        session = (await send(url, greeting)).headers["mcp-session-id"]

        def within(request: RawRequest) -> RawRequest:
            bare = request.without(*plain).params(_meta=...)
            return bare.having(mcp_session_id=session, mcp_protocol_version=REVISION_2025)

        async def at(request: RawRequest) -> RawResponse:
            return await send(url, request)

        await at(within(raw(caller.envelope("notifications/initialized", {}))).but(id=...).having(authorization=ANN))
        yield ran, caller, within, at


@asynccontextmanager
async def session(make: Make) -> AsyncIterator[Way]:
    """`tools/call` in a session of 2025, and a retry of 2026-07-28 that is sent within it."""
    async with _session(make) as (ran, caller, within, at):
        first, retry = map(within, await _calls(caller, at))
        yield Way("session", ran, at, first, retry, unserved="retry")


@asynccontextmanager
async def session_saga(make: Make) -> AsyncIterator[Way]:
    """Sagas in a session of 2025."""
    async with _session(make) as (ran, caller, within, at):

        async def inside(request: RawRequest) -> RawResponse:
            return await at(within(request))

        first, retry = map(within, await _sagas(caller, inside))
        yield Way("session saga", ran, at, first, retry, "sagaToken", "completedSteps")


@asynccontextmanager
async def stream(make: Make) -> AsyncIterator[Way]:
    """The stream of a session of 2025, which a GET opens. It has no end, so only its head is read."""
    async with _session(make) as (ran, caller, within, at):
        opens = within(_request(caller, "ping", {}))
        yield Way("stream", ran, at, replace(opens, method="GET", body=b""), None, unserved="first")


class _Lines:
    """Standard input and output of a server: the lines that it is sent, and those that it wrote."""

    def __init__(self) -> None:
        self.sent: asyncio.Queue[str | None] = asyncio.Queue()
        self.written: asyncio.Queue[str] = asyncio.Queue()

    def __aiter__(self) -> _Lines:
        return self

    async def __anext__(self) -> str:
        line = await self.sent.get()
        if line is None:
            raise StopAsyncIteration
        return line

    async def write(self, line: str) -> None:
        """Keep a line."""
        self.written.put_nowait(line)

    async def flush(self) -> None:
        """There is nothing to flush."""


@asynccontextmanager
async def _stdio(make: Make) -> AsyncIterator[tuple[Ran, Send]]:
    """A server behind standard input and output; its requests have no headers."""
    ran: Ran = []
    low = framehold.attach(make(ran), Settings(node_id="ways", sagas=True)).server
    lines = _Lines()

    async def at(request: RawRequest) -> RawResponse:
        lines.sent.put_nowait(request.body.decode())
        async with asyncio.timeout(DEADLINE):
            while "id" not in json.loads(line := await lines.written.get()):
                pass
        return RawResponse(0, http.client.HTTPMessage(), line.encode())

    async def serve() -> None:
        async with low.lifespan(low) as state, stdio_server(cast(Any, lines), cast(Any, lines)) as (read, write):
            await serve_dual_era_loop(low, read, write, lifespan_state=state)

    serving = asyncio.create_task(serve())
    try:
        yield ran, at
    finally:
        lines.sent.put_nowait(None)
        await serving


@asynccontextmanager
async def stdio(make: Make) -> AsyncIterator[Way]:
    """`tools/call` over standard input and output."""
    async with _stdio(make) as (ran, at):
        first, retry = await _calls(Caller(""), at)
        yield Way("stdio", ran, at, first, retry)


@asynccontextmanager
async def stdio_saga(make: Make) -> AsyncIterator[Way]:
    """Sagas over standard input and output."""
    async with _stdio(make) as (ran, at):
        first, retry = await _sagas(Caller(""), at)
        yield Way("stdio saga", ran, at, first, retry, "sagaToken", "completedSteps")


WAYS = {
    "call": call,
    "chunked": chunked,
    "streamed": streamed,
    "mounted": mounted,
    "routed": routed,
    "saga": saga,
    "session": session,
    "session saga": session_saga,
    "stream": stream,
    "stdio": stdio,
    "stdio saga": stdio_saga,
}
