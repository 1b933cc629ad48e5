"""Relays that meet what they should not: odd addresses, nodes that are others than their leases say, servers that
speak no HTTP, authors who speak too early. The client gets a clear answer, and nothing of the fleet's is told."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.types import ASGIApp, Receive, Scope, Send

import framehold
from framehold.config import Settings
from framehold.http import outages
from framehold.http.outages import TRIES
from tests.kit.beside_sdk import raw, send
from tests.kit.client import Caller
from tests.kit.nodes import KEY, served
from tests.kit.processes import until
from tests.kit.proofs import INSIDE, client, introduced, sent_as
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word
from tests.node.http.test_relay import ACCEPT, INITIALIZE, Site, fleet, say_address

pytestmark = pytest.mark.anyio
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
LOUD = {"io.modelcontextprotocol/logLevel": "debug"}


@pytest.fixture
async def pair(redis: RedisServer, tmp_path: Any) -> AsyncIterator[tuple[Site, Site]]:
    async with fleet(redis, tmp_path.name, "a", "b") as sites:
        yield sites["a"], sites["b"]


@asynccontextmanager
async def answering(data: bytes) -> AsyncIterator[str]:
    """A process of the fleet that says this to whoever sends a request; yields its address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await introduced(reader, writer)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_no_secret_is_logged(pair: tuple[Site, Site], caplog: pytest.LogCaptureFixture) -> None:
    """The owner says what is no HTTP: the client's secret and what proves the sender stay out of the log, and the
    client is told."""
    a, b = pair
    caplog.set_level(logging.DEBUG)
    async with Caller(a.url) as at_a, Caller(b.url) as at_b, answering(b"220 smtp.example ready\r\n") as elsewhere:
        asked = await at_a.call("ask")
        await say_address(a, elsewhere, b)
        hush = {"authorization": "Bearer hush"}
        result = await at_b.retry("ask", asked.token, asked.accept(word="aye"), headers=hush)
    assert (result.status, result.code) == (503, -32603)
    assert "broke off" in caplog.text
    assert "v1.node." not in caplog.text
    assert "hush" not in caplog.text


async def test_an_owner_that_holds_nothing_is_looked_for_four_times(
    pair: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look-up is one relay. After the last of them the client is told to come again, and waits no longer."""
    a, b = pair
    forward, relays = b.app._relay.forward, []

    async def counted(address: str, *rest: Any) -> Any:
        relays.append(address)
        return await type(forward).forward(forward, address, *rest)

    monkeypatch.setattr(forward, "forward", counted)
    async with Caller(a.url) as at_a, Caller(b.url) as at_b, httpx2.AsyncClient(headers=ACCEPT) as http:
        asked = await at_a.call("ask")
        begun = await http.post(a.url, json=INITIALIZE)
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        await say_address(a, b.app.attached.runtime.heartbeat.address, b)
        answer = await at_b.retry("ask", asked.token, asked.accept(word="aye"))
        assert answer.status == 503 and int(answer.headers["retry-after"]) > 0
        assert len(relays) == TRIES == 4
        assert (await http.post(b.url, json=PING, headers=session)).status_code == 503, "of a session nothing is known"


async def test_a_wait_is_one_request_to_a_middleware(pair: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the owner is out of reach."""
    a, b = pair
    counted: list[str] = []

    async def count(ctx: Any, call_next: Any) -> Any:
        counted.append(ctx.method)
        return await call_next(ctx)

    b.app.attached.server.middleware.append(count)
    monkeypatch.setattr(outages, "PATIENCE", 1.0)
    async with Caller(a.url) as at_a, Caller(b.url) as at_b:
        asked = await at_a.call("ask")
        await say_address(a, "http://127.0.0.1:1", b)
        answer = await at_b.retry("ask", asked.token, asked.accept(word="aye"))
    assert (answer.status, counted) == (503, ["tools/call"])


async def test_a_first_round_that_breaks_off_is_not_sent_again(pair: tuple[Site, Site]) -> None:
    """A draining node passes new calls on. One that reached another node may have run there: nobody could tell a second
    sending from a second call (docs/protocol.md, rule 9)."""
    a, b = pair
    reply: list[bytes] = []

    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await introduced(reader, writer)
        reply.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with await asyncio.start_server(breaks, "127.0.0.1", 0) as broken, Caller(a.url) as caller:
        await caller.call("ask")
        runtime = a.app.attached.runtime
        draining = asyncio.create_task(runtime.drain(30.0))
        # Until it has read which nodes there are, it takes calls itself.
        await until(lambda: runtime.draining.on, "the drain to know the other nodes")
        await say_address(b, f"http://127.0.0.1:{broken.sockets[0].getsockname()[1]}", a)
        result = await caller.call("ask")
        assert len(reply) == 1
        assert result.code == -32603 and "whether it was run is not known" in result.text
        assert (a.entered, b.entered) == (["ask"], [])
        draining.cancel()


async def test_a_session_while_the_store_is_away(tmp_path: Any) -> None:
    """A node that can't know where a session lives says 503: a 404 would make the client throw it away."""
    store = RedisServer()
    store.start()
    try:
        made = fleet(store, tmp_path.name, "a", "b", lease_ttl=30.0)
        async with made as sites, httpx2.AsyncClient(headers=ACCEPT, timeout=20) as http:
            begun = await http.post(sites["a"].url, json=INITIALIZE)
            session = {"mcp-session-id": begun.headers["mcp-session-id"]}
            store.stop()
            result = await http.post(sites["b"].url, json=PING, headers=session)
            assert (result.status_code, result.headers["retry-after"]) == (503, "1")
            assert (await http.post(sites["a"].url, json=PING, headers=session)).status_code == 200
            # Without a store the nodes would take their drain's time to end.
            store.start()
    finally:
        store.remove()


def _server(name: str, middleware: Any = None) -> MCPServer[Any]:
    mcp: MCPServer[Any] = MCPServer("pair", middleware=[middleware] if middleware else None)

    @mcp.tool()
    async def one(ctx: Context) -> str:
        """Ask once."""
        await ctx.elicit("Which word?", Word)
        return f"done at {name}"

    return mcp


@asynccontextmanager
async def built(
    redis: RedisServer, namespace: str, server: Callable[[str], Any], seen: list[Any] | None = None
) -> AsyncIterator[dict[str, str]]:
    """Nodes a and b of these servers. What each of them is sent is noted in `seen`."""
    async with AsyncExitStack() as stack:
        urls = {}
        for name in "ab":
            settings = Settings(node_id=name, store_url=redis.url, namespace=namespace, keys=(KEY,), lease_ttl=5.0)
            app = framehold.asgi(server(name), settings)
            if seen is not None:
                app.add_middleware(Noting, seen, name)
            urls[name] = await stack.enter_async_context(served(app))
        yield urls


class Noting:
    """A middleware that notes the query and a header of each request."""

    def __init__(self, app: ASGIApp, seen: list[Any], name: str) -> None:
        self.app, self.seen, self.name = app, seen, name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.seen.append((self.name, scope["query_string"], dict(scope["headers"]).get(b"x-own")))
        await self.app(scope, receive, send)


async def test_what_is_passed_on_is_what_came(redis: RedisServer, tmp_path: Any) -> None:
    """The query and headers that are no ASCII arrive as the client wrote them."""
    seen: list[tuple[str, bytes, bytes | None]] = []
    query, own = "a=%2B+b%20c&d=%zz&e=%41", "café".encode()
    async with built(redis, tmp_path.name, _server, seen) as urls, Caller(urls["a"]) as at_a:
        asked = await at_a.call("one")
        params = {"name": "one", "arguments": {}, "requestState": asked.token, "inputResponses": asked.accept(word="x")}
        request = raw(at_a.envelope("tools/call", params)).adding(x_own=own.decode("latin-1"))
        answer = await send(urls["b"], replace(request, path=f"/mcp?{query}"))
    assert b"done at a" in answer.body
    assert len(answer.headers.get_all("date", [])) == 1
    assert seen[-2:] == [(name, query.encode(), own) for name in "ba"]


async def test_a_middleware_that_speaks_before_the_relay(redis: RedisServer, tmp_path: Any) -> None:
    """A stream has begun when it turns out that the call is elsewhere: the owner's response is the rest of it, an error
    of the owner's too."""

    def loud(name: str) -> MCPServer[Any]:
        async def say(ctx: Any, call_next: Any) -> Any:
            if ctx.method == "tools/call":
                await ctx.session.send_log_message("info", f"seen by {name}")
            return await call_next(ctx)

        return _server(name, say)

    made = built(redis, tmp_path.name, loud)
    async with made as urls, Caller(urls["a"]) as at_a, Caller(urls["b"]) as at_b:
        asked = await at_a.call("one", meta=LOUD)
        assert asked.streamed, "the middleware spoke"
        bad = await at_b.retry("one", asked.token, dict.fromkeys(asked.asked, 12), meta=LOUD)
        assert bad.code == -32602
        inside = sent_as("node")
        lost = await at_b.retry("one", asked.token, asked.accept(word="x"), meta=LOUD, headers=inside)
        assert lost.code == -32603 and lost.message["error"]["data"]["retryAfter"] >= 1
        done = await at_b.retry("one", asked.token, asked.accept(word="x"), meta=LOUD)
    assert done.text == "done at a"
    assert [event["params"]["data"] for event in done.events] == ["seen by b", "seen by a"]


async def test_admin_is_not_reached_through_a_router(redis: RedisServer, tmp_path: Any) -> None:
    """An app that is mounted somewhere has its admin pages where routers don't look for them: nodes answer only to
    those who ask in their own name."""
    settings = Settings(node_id="a", store_url=redis.url, namespace=tmp_path.name, keys=(KEY,))
    app = Starlette(routes=[Mount("/sub", framehold.asgi(_server("a"), settings))])
    async with served(app) as url, client() as http:
        admin = url.removesuffix("/mcp") + "/sub/admin/node"
        for passed_on in (sent_as("router"), sent_as("router", "0" * 32), sent_as("node"), sent_as("client")):
            assert (await http.get(admin, headers=passed_on)).status_code == 403
        assert (await http.get(admin)).status_code == 403
        assert (await http.get(admin, headers=INSIDE)).status_code == 200
