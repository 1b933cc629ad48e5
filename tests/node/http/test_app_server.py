"""The HTTP server of the fleet under an app: an app sees what it would see under uvicorn, and a client too."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
import re
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn
from starlette.routing import Mount, Route, WebSocketRoute

from framehold.http.app_server import AppServer, needs_uvicorn
from framehold_cli.serve import node
from framehold_fleet.limits import Limits
from tests.kit.limits import limits_of
from tests.kit.nodes import served
from tests.kit.processes import until

pytestmark = pytest.mark.anyio

LIMITS = limits_of(1 << 20, 32 * 1024, 100)
_asker: contextvars.ContextVar[str] = contextvars.ContextVar("asker")
_OWN = re.compile(rb"\r\ndate: [^\r]*|\r\nserver: [^\r]*", re.IGNORECASE)


async def told(scope: Any, receive: Any, send: Any) -> None:
    """Answer with what the app sees of a request, but for ports."""
    if scope["type"] == "lifespan":
        await receive()
        scope["state"]["of the lifespan"] = "yes"
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message["body"], message["more_body"]
    seen = {name: value for name, value in scope.items() if name not in ("client", "server", "asgi", "headers", "type")}
    headers = sorted(
        item for item in scope["headers"] if item[0] not in (b"content-length", b"transfer-encoding", b"host")
    )
    hosts = (scope["client"][0], scope["server"][0], scope["asgi"]["version"])
    text = json.dumps(
        [seen, headers, hosts, body], default=lambda found: found.decode("latin-1"), sort_keys=True
    ).encode()
    await send({"type": "http.response.start", "status": 207, "headers": [(b"x-kind", b"told"), _length(text)]})
    await send({"type": "http.response.body", "body": text})


def with_lifespan(app: Any) -> Any:
    """An app for requests, with the lifespan of `told`."""

    async def whole(scope: Any, receive: Any, send: Any) -> None:
        await (told if scope["type"] == "lifespan" else app)(scope, receive, send)

    return whole


def _length(data: bytes) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % len(data)


@contextlib.asynccontextmanager
async def running(
    app: Any, limits: Limits | None = LIMITS, config: uvicorn.Config | None = None
) -> AsyncIterator[tuple[str, int]]:
    """An app on the fleet's server; on uvicorn's if `limits` is None, or a `config` of it is given."""
    http = None if limits is None else AppServer(lambda: limits).connection
    async with served(app, http, config=config) as url:
        host, port = url.split("/")[2].split(":")
        yield host, int(port)


async def said(place: tuple[str, int], *pieces: bytes) -> bytes:
    """All that a client gets who sends these pieces and then waits for the end."""
    reader, writer = await asyncio.open_connection(*place)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    try:
        async with asyncio.timeout(20):
            return await reader.read()
    finally:
        writer.transport.abort()


END = b"connection: close\r\n"
REQUESTS = {
    "a page": b"GET /a%20b/c?x=1&y=%20 HTTP/1.1\r\nhost: h\r\naccept: */*\r\n" + END + b"\r\n",
    "a head alone": b"HEAD / HTTP/1.1\r\nhost: h\r\n" + END + b"\r\n",
    "a body": b"POST /mcp HTTP/1.1\r\nHost: h\r\nX-Trace:  a b \r\ncontent-length: 5\r\n" + END + b"\r\nhello",
    "an empty body": b"POST /mcp HTTP/1.1\r\nhost: h\r\ncontent-length: 0\r\n" + END + b"\r\n",
    "no body": b"DELETE /mcp HTTP/1.1\r\nhost: h\r\n" + END + b"\r\n",
    "chunks": b"POST / HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n"
    + END
    + b"\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
    "HTTP/1.0": b"GET /old HTTP/1.0\r\nhost: h\r\n\r\n",
    "a header twice": b"GET / HTTP/1.1\r\nhost: h\r\nx-a: 1\r\nx-a: 2\r\n" + END + b"\r\n",
    "bytes that are no ASCII": b"GET /%C3%A4 HTTP/1.1\r\nhost: h\r\nx-a: \xe4\r\n" + END + b"\r\n",
    "two in a row": b"GET /1 HTTP/1.1\r\nhost: h\r\n\r\nGET /2 HTTP/1.1\r\nhost: h\r\n" + END + b"\r\n",
    "one that repeats its head": (b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nab") * 3
    + b"GET /2 HTTP/1.1\r\nhost: h\r\n"
    + END
    + b"\r\n",
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_app_and_client_see_what_they_see_under_uvicorn(name: str) -> None:
    request = REQUESTS[name]
    found = []
    for limits in (LIMITS, None):
        async with running(told, limits) as place:
            found.append(_OWN.sub(b"", await said(place, request)).lower())
    assert found[0] == found[1] and b" 207 " in found[0]


async def test_a_request_may_come_in_any_pieces() -> None:
    async with running(told) as place:
        for name in ("a body", "chunks"):
            request = REQUESTS[name]
            whole = _OWN.sub(b"", await said(place, request))
            for cut in range(1, len(request)):
                assert _OWN.sub(b"", await said(place, request[:cut], request[cut:])) == whole, cut


async def test_an_app_sees_the_id_of_each_new_call_whether_its_head_came_before_or_not() -> None:
    """A router writes the id behind the length, and none into a retry. The rest of the head is the same."""
    head, ids = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n", (b"", b"a" * 32, b"", b"0" * 32, b"1" * 32)
    async with running(told) as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        for call in ids:
            writer.write(head + (b"framehold-call-id: %b\r\n" % call if call else b"") + b"\r\nab")
            found = await reader.readuntil(b"}")
            body = await reader.readuntil(b'"ab"]')
            named = re.findall(rb'"framehold-call-id", "(\w+)"', found + body)
            assert named == ([call] if call else []), found + body
        writer.close()


def replying(*messages: dict[str, Any], then: type[BaseException] | None = None) -> Any:
    """An app that sends these messages, and then raises."""

    @with_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send({"type": "http.response.body", **message})
        if then is not None:
            raise then("of the author")

    return app


def head(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": headers}


ANSWERS: dict[str, Callable[[], Any]] = {
    "in pieces": lambda: replying(head(), {"body": b"a", "more_body": True}, {"body": b"b"}),
    "in pieces of a known length": lambda: replying(
        head(_length(b"ab")), {"body": b"a", "more_body": True}, {"body": b"b"}
    ),
    "nothing": lambda: replying(head(status=204), {}),
    "an empty body": lambda: replying(head(), {}),
    "an error before the response": lambda: replying(then=ValueError),
    "an exit before the response": lambda: replying(then=SystemExit),
    "no response": replying,
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_client_gets_what_it_gets_under_uvicorn(name: str, method: str) -> None:
    found = []
    for limits in (LIMITS, None):
        async with running(ANSWERS[name](), limits) as place:
            heard = await said(place, f"{method} / HTTP/1.1\r\nhost: h\r\n".encode() + END + b"\r\n")
            found.append(sorted(_OWN.sub(b"", heard).lower().split(b"\r\n")))
    assert found[0] == found[1] and found[0]


BROKEN: dict[str, Callable[[], Any]] = {
    "an error within the response": lambda: replying(head(), {"body": b"a", "more_body": True}, then=ValueError),
    "an end within the response": lambda: replying(head(), {"body": b"a", "more_body": True}),
    "too short": lambda: replying(head(_length(b"abc")), {"body": b"a"}),
    "too long": lambda: replying(head(_length(b"a")), {"body": b"a", "more_body": True}, {"body": b"bcd"}),
    "a head alone": lambda: replying(head(_length(b"abc"))),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_response_that_is_not_whole_does_not_look_whole(name: str) -> None:
    async with running(BROKEN[name]()) as place:
        for _ in range(2):
            try:
                heard = await said(place, b"GET / HTTP/1.1\r\nhost: h\r\n" + END + b"\r\n")
            except ConnectionResetError:
                continue
            body = heard.partition(b"\r\n\r\n")[2]
            assert not heard.startswith(b"HTTP/1.1 200") or (b"0\r\n\r\n" not in body and len(body) != 3), heard


@pytest.mark.parametrize(
    "header",
    [(b"x-a", b"1\r\nx-evil: 1"), (b"x-a", b"1\nx-evil: 1"), (b"x-a: 1\r\nx-evil", b"1"), (b"x-a", b"1\rx-evil: 1")],
)
async def test_a_header_of_a_response_can_not_end_its_line(header: tuple[bytes, bytes]) -> None:
    async with running(replying(head(header, _length(b"ok")), {"body": b"ok"})) as place:
        heard = await said(place, b"GET / HTTP/1.1\r\nhost: h\r\n" + END + b"\r\n")
    assert heard.startswith(b"HTTP/1.1 500 ") and b"x-evil" not in heard
    async with running(replying(head((b"content-length", b"2\r\n")), {"body": b"ok"})) as place:
        heard = await said(place, b"GET / HTTP/1.1\r\nhost: h\r\n" + END + b"\r\n")
    assert heard.partition(b"\r\n\r\n")[2] == b"ok"


async def test_a_connection_closes_after_a_response_that_says_so() -> None:
    async with running(replying(head((b"Connection", b"Close"), _length(b"ok")), {"body": b"ok"})) as place:
        async with asyncio.timeout(5):
            heard = await said(place, b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
    assert heard.endswith(b"ok") and heard.lower().count(b"connection: close") == 1


async def test_what_an_app_changes_in_a_scope_is_not_seen_by_the_next_request() -> None:
    found: list[str] = []

    @with_lifespan
    async def changing(scope: Any, receive: Any, send: Any) -> None:
        found.append(repr({name: value for name, value in scope.items() if name != "client"}))
        for part in (scope["asgi"], scope["state"], scope):
            part["changed"] = "yes"
        scope["headers"].append((b"x-changed", b"yes"))
        scope["path"] = "/changed"
        await send(head(_length(b"")))
        await send({"type": "http.response.body"})

    async with running(changing) as (host, port):
        reader, writer = await asyncio.open_connection(host, port)
        for _ in range(3):
            writer.write(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nab")
            await reader.readuntil(b"\r\n\r\n")
        writer.close()
    assert len(found) == 3 and len(set(found)) == 1


@pytest.mark.parametrize("by", ["the fleet's server", "uvicorn as the node starts it"])
async def test_no_request_sees_a_context_variable_of_another(by: str) -> None:
    """Neither one that waited for the response before it, nor one after reading or writing had stopped."""
    seen: list[str] = []
    begun, go = asyncio.Event(), asyncio.Event()

    @with_lifespan
    async def binding(scope: Any, receive: Any, send: Any) -> None:
        seen.append(_asker.get("nobody"))
        _asker.set(scope["path"])
        begun.set()
        await go.wait()
        large = b"x" * (8 << 20 if scope["path"] == "/large" else 1)
        await send(head(_length(large)))
        await send({"type": "http.response.body", "body": large})

    def asking(path: bytes, size: int = 0) -> bytes:
        return b"POST %b HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % (path, size) + b"x" * size

    config = None if "fleet" in by else node._options(binding, "on")
    async with running(binding, config=config) as (host, port), asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(host, port, limit=16 << 20)
        writer.write(asking(b"/1") + asking(b"/2"))
        await begun.wait()
        writer.write(asking(b"/3", 100_000) + asking(b"/4", 100_000) + asking(b"/large") + asking(b"/6"))
        go.set()
        for _ in range(6):
            await reader.readuntil(b"\r\n\r\nx")
        writer.write(asking(b"/7"))
        await reader.readuntil(b"\r\n\r\nx")
        writer.close()
    assert seen == ["nobody"] * 7


async def test_an_app_waits_for_a_slow_client() -> None:
    sent: list[int] = []

    @with_lifespan
    async def pouring(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for count in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            sent.append(count)
        await send({"type": "http.response.body", "body": b""})

    async with running(pouring) as (host, port):
        reader, writer = await asyncio.open_connection(host, port, limit=65536)
        writer.write(b"GET / HTTP/1.1\r\nhost: h\r\n" + END + b"\r\n")
        before = -1
        while len(sent) != before:
            before = len(sent)
            await asyncio.sleep(0.3)
        assert 0 < len(sent) < 900
        async with asyncio.timeout(60):
            while await reader.read(1 << 20):
                pass
        writer.close()
    assert len(sent) == 1000


async def test_an_app_may_end_the_response_to_a_client_that_has_reset_its_connection() -> None:
    """Nobody has noticed the reset where the client sent so much behind its request that reading stopped."""
    left, ended = asyncio.Event(), asyncio.Event()

    @with_lifespan
    async def leaving(scope: Any, receive: Any, send: Any) -> None:
        await send(head(_length(b"ok")))
        await send({"type": "http.response.body", "body": b"ok", "more_body": True})
        await left.wait()
        await send({"type": "http.response.body"})
        ended.set()

    async with running(leaving) as (host, port), asyncio.timeout(20):
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(b"GET / HTTP/1.1\r\nhost: h\r\n" + END + b"\r\n" + bytes(16 << 20))
        await reader.readuntil(b"ok")
        await asyncio.sleep(0)
        resets = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, resets)
        writer.transport.abort()
        await asyncio.sleep(0)
        left.set()
        await ended.wait()


async def test_an_idle_connection_ends_with_the_server_and_a_request_has_its_response() -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @with_lifespan
    async def slow(scope: Any, receive: Any, send: Any) -> None:
        begun.set()
        await go.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [_length(b"late")]})
        await send({"type": "http.response.body", "body": b"late"})

    config = uvicorn.Config(slow, http=AppServer(lambda: LIMITS).connection, log_level="critical")  # type: ignore[arg-type]
    server = uvicorn.Server(config)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(asyncio.CancelledError))
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        place = listening.getsockname()
        server.capture_signals = contextlib.nullcontext  # type: ignore[assignment]
        serving = asyncio.create_task(server.serve([listening]))
        await until(lambda: server.started, "its start")
        idle, idle_writer = await asyncio.open_connection(*place)
        reader, writer = await asyncio.open_connection(*place)
        writer.write(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
        await begun.wait()
        server.should_exit = True
        assert await idle.read() == b""
        go.set()
        heard = await reader.read()
        assert heard.endswith(b"late") and b"connection: close" in heard
        await serving
        writer.close()
        idle_writer.close()


async def _page(request: Any) -> Any: ...


async def _socket(websocket: Any) -> None: ...


def test_an_app_with_routes_of_its_author_keeps_uvicorn() -> None:
    mcp = [Route("/mcp", _page), Route("/.well-known/oauth-protected-resource/mcp", _page), Route("/token", _page)]
    assert not needs_uvicorn(mcp, "/mcp")
    pages = (Route("/upload", _page), Route("/register/photo", _page), Route("/tokens", _page))
    for own in (*pages, Mount("/static", routes=[]), WebSocketRoute("/socket", _socket)):
        assert needs_uvicorn([*mcp, own], "/mcp")
