"""Which `Host` and `Origin` a node answers to, what browsers are told, and what a wrong token costs."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import fastmcp
import httpx2
import pytest
from fastmcp import FastMCP
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.websockets import WebSocket

import framehold
from framehold.config import Settings
from framehold.http import refusal_log
from framehold.http.app import Application
from framehold.http.cors import Cors
from framehold_cli.serve import node
from framehold_fleet.guard import guesses
from tests.kit.beside_sdk import RawRequest, RawResponse, raw, send, twins
from tests.kit.client import Caller
from tests.kit.fleet import fleet
from tests.kit.nodes import KEY, served
from tests.kit.operators import SHOWN, TOKEN
from tests.kit.proofs import INSIDE, client, sent_as
from tests.kit.redis_server import RedisServer
from tests.node.http.test_authentication import guarded
from tests.node.http.test_relay import ACCEPT, INITIALIZE

pytestmark = pytest.mark.anyio


PAGES = ("/healthz", "/readyz", "/metrics", "/admin/node", "/admin/leases")
GOOD = ("127.0.0.1", "10.1.2.3:8080", "[2001:db8::7]:8080", "localhost:1", "node.example", "Node.Example:9")
BAD = ("evil.example", "evil.example:8080", "localhost.evil.example", "[evil]")


def app_of(server: Any, **settings: Any) -> Application:
    chosen = {"keys": (KEY,), "admin_token": TOKEN, "allowed_hosts": ("node.example",), **settings}
    return framehold.asgi(server, Settings(node_id="n", **chosen))


async def home(_: Request) -> Response:
    return PlainTextResponse("at home")


def with_pages(app: Application) -> Application:
    app.routes.append(Route("/home", home))
    return app


Status = Callable[..., Awaitable[int]]


@pytest.fixture
async def status() -> AsyncIterator[Status]:
    """Gives the status of a page: one client asks for all of them."""
    async with client() as http:

        async def of(url: str, host: str, path: str, **headers: str) -> int:
            response = await http.get(url.removesuffix("/mcp") + path, headers={**headers, "host": host})
            if response.status_code == 421:
                assert "FRAMEHOLD_ALLOWED_HOSTS" in response.text and "at home" not in response.text
            return response.status_code

        yield of


async def test_no_page_of_a_node_answers_to_a_name_that_was_re_bound(
    status: Status, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither Framehold's own nor the author's, with the admin token too; the log names each name once. Addresses and
    names that are allowed are answered, whatever the port."""
    async with served(with_pages(app_of(MCPServer("n")))) as url:
        for path in (*PAGES, "/home", "/nowhere"):
            for host in BAD:
                assert await status(url, host, path, **SHOWN) == 421, (path, host)
            for host in GOOD:
                assert await status(url, host, path, **SHOWN) == (404 if path == "/nowhere" else 200), (path, host)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len([line for line in lines if "is not allowed, and was refused with 421" in line]) == len(BAD)


async def test_the_fleet_itself_reaches_a_node_by_any_name(status: Status) -> None:
    """By the one that its lease has, as in a network of containers. What is passed on for a client has its Host."""
    async with served(with_pages(app_of(MCPServer("n")))) as url:
        for path in PAGES:
            assert await status(url, "node-1:8080", path, **INSIDE) == 200
            assert await status(url, "evil.example", path, **sent_as("router")) == 421
        assert await status(url, "evil.example", "/home", **sent_as("router")) == 421


async def test_pages_behind_the_prefix_of_another_app_are_checked_too(status: Status) -> None:
    app = with_pages(app_of(MCPServer("n")))
    async with served(Starlette(routes=[Route("/", home), Mount("/sub", app)], lifespan=app.lifespan)) as url:
        for path in (*PAGES, "/home"):
            assert await status(url, "evil.example", f"/sub{path}", **SHOWN) == 421
            assert await status(url, "node.example", f"/sub{path}", **SHOWN) == 200
        assert await status(url, "evil.example", "/") == 200


@pytest.mark.parametrize(("host", "sent"), [("evil.example", "websocket.close"), ("localhost", "websocket.accept")])
async def test_a_websocket_of_the_author_is_a_page_too(host: str, sent: str) -> None:
    app = app_of(MCPServer("n"))
    messages: list[str] = []

    async def talk(socket: WebSocket) -> None:
        await socket.accept()

    app.router.add_websocket_route("/talk", talk)

    async def send(message: Any) -> None:
        messages.append(message["type"])

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async with served(app):
        scope = {"type": "websocket", "path": "/talk", "headers": [(b"host", host.encode())], "query_string": b""}
        await app({**scope, "subprotocols": []}, receive, send)
    assert messages == [sent]


async def test_the_admin_port_checks_the_name(status: Status) -> None:
    app = app_of(MCPServer("n"))
    admin = app.take_admin_port()
    async with served(app) as clients, served(admin, config=node._options(admin, "off")) as url:
        for path in (*PAGES, "/mcp", "/"):
            assert await status(url, "evil.example", path, **SHOWN) == 421
            assert await status(url, "node.example", path, **SHOWN) == (200 if path in PAGES else 404)
            assert await status(url, "node-1", path, **INSIDE) == (200 if path in PAGES else 404)
        assert await status(clients, "evil.example", "/metrics") == 421


async def test_a_wrong_admin_token_waits_is_counted_and_logged_once(
    status: Status, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On both ports together; who shows none, or the right one, does not guess. The log has no token."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    app = app_of(MCPServer("n"))
    monkeypatch.setattr(app._admin._guesses, "_pause", pause)
    async with served(app) as url:
        for shown in ("", "Bearer", f"Bearer {TOKEN}", "Basic eDp3cm9uZw==", f"bearer  {TOKEN}"):
            await status(url, "localhost", "/admin/node", authorization=shown)
        assert pauses == [guesses.FIRST_DELAY], "an empty bearer token is a wrong one"
        for number in range(3):
            assert await status(url, "localhost", "/admin/node", authorization=f"Bearer guess-{number}") == 403
    assert pauses == [guesses.FIRST_DELAY * factor for factor in (1, 2, 4, 8)]
    assert app.attached.runtime.counts[guesses.WRONG_TOKENS] == 4
    assert len([text for text in caplog.messages if "a wrong token was shown by '127.0.0.1'" in text]) == 1
    assert "guess-" not in caplog.text


async def test_a_node_believes_no_client_about_its_address_or_scheme() -> None:
    """A router on the same machine passes on what a client wrote, and uvicorn would believe a neighbour."""

    async def told(scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse([scope["client"][0], scope["scheme"]])(scope, receive, send)

    async with served(told, config=node._options(told, "off")) as url, httpx2.AsyncClient() as http:
        forged = {"x-forwarded-for": "10.9.9.9", "x-forwarded-proto": "https"}
        assert (await http.get(url, headers=forged)).json() == ["127.0.0.1", "http"]


REFUSED = [
    ({"host": "evil.example"}, 421, "Host 'evil.example' is not allowed", "FRAMEHOLD_ALLOWED_HOSTS, which replaces"),
    (
        {"origin": "https://evil.example"},
        403,
        "Origin 'https://evil.example' is not allowed",
        "FRAMEHOLD_ALLOWED_ORIGINS; local ones are allowed while neither it nor FRAMEHOLD_ALLOWED_HOSTS is set",
    ),
]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == refusal_log.__name__]


@pytest.mark.parametrize("make", [MCPServer, FastMCP])
@pytest.mark.parametrize(("headers", "status", "says", "setting"), REFUSED, ids=["host", "origin"])
async def test_a_refusal_names_its_setting_once(
    make: Any, headers: dict[str, str], status: int, says: str, setting: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever is refused, the SDK's check or FastMCP's; what is sent again is not told again."""
    async with served(framehold.asgi(make("n"), Settings(node_id="n"))) as url, httpx2.AsyncClient() as http:
        for send in (http.post, http.get, http.post):
            assert (await send(url, headers=headers | {"content-type": "application/json"})).status_code == status
        await http.post(url)
    (line,) = lines(caplog)
    assert line.startswith(says) and setting in line


INSPECTOR = "http://localhost:6274"
ELSEWHERE = "https://inspector.example.com"
LOCAL, NAMED = "127.0.0.1:80", {"allowed_hosts": ("node.example",)}
MCP_REQUESTS: dict[str, tuple[dict[str, Any], str, str | None, int]] = {
    # The settings, the host, the origin of the page that asks, and the status.
    "a strange host": ({}, "node.example", None, 421),
    "a local host": ({}, LOCAL, None, 200),
    "a local host without a port": ({}, "localhost", None, 421),
    "a local page without a port": ({}, LOCAL, "http://localhost", 403),
    "a local page": ({}, LOCAL, INSPECTOR, 200),
    "a strange page": ({}, LOCAL, ELSEWHERE, 403),
    "an allowed host": (NAMED, "node.example", None, 200),
    "an allowed host on any port": ({"allowed_hosts": ("node.example:*",)}, "node.example:81", None, 200),
    "a host that a pattern names": ({"allowed_hosts": ("*.example",)}, "node.example", None, 421),
    "a page that a pattern names": ({"allowed_origins": ("https://*.example.com",)}, LOCAL, ELSEWHERE, 403),
    "a local host where another is allowed": (NAMED, LOCAL, None, 421),
    "a local page where a host is allowed": (NAMED, "node.example", INSPECTOR, 403),
    "an allowed page": (NAMED | {"allowed_origins": (ELSEWHERE,)}, "node.example", ELSEWHERE, 200),
    "a local page where another is allowed": ({"allowed_origins": (ELSEWHERE,)}, LOCAL, INSPECTOR, 403),
}


@pytest.mark.parametrize("make", [MCPServer, FastMCP])
@pytest.mark.parametrize("name", MCP_REQUESTS)
async def test_which_hosts_and_pages_may_call(make: Any, name: str) -> None:
    """Whatever the server is made with, whatever address it listens on, and in both eras."""
    given, host, origin, status = MCP_REQUESTS[name]
    server = make("n")
    server.tool(name="work")(lambda: "done")
    app = framehold.asgi(server, Settings(node_id="n", **given))

    async def beyond(scope: Any, receive: Any, send: Any) -> None:
        await app(scope | {"server": ("10.1.2.3", 80)}, receive, send)

    named = {"host": host} | ({} if origin is None else {"origin": origin})
    parent = Starlette(routes=[Mount("/", beyond)], lifespan=app.lifespan)
    async with served(parent) as url, httpx2.AsyncClient() as http, Caller(url) as caller:
        modern = caller.envelope("tools/list", {})
        asks = caller.envelope("tools/call", {"name": "work", "arguments": {}})
        found = [await http.post(url, json=INITIALIZE, headers=ACCEPT | named)]
        found += [await http.post(url, json=one.body, headers={**one.headers, **named}) for one in (modern, asks)]
    assert [one.status_code for one in found] == [status] * 3
    assert ["access-control-allow-origin" in one.headers for one in found] == [origin is not None and status == 200] * 3


@pytest.mark.parametrize(("setting", "value"), [("host_origin_protection", False), ("allowed_hosts", ["node.example"])])
async def test_what_the_author_has_set_of_fastmcps_guard_counts(
    setting: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fastmcp.settings", fastmcp.settings.model_copy(update={f"http_{setting}": value}))
    app = framehold.asgi(FastMCP("n"), Settings(node_id="n"))
    async with served(app) as url, httpx2.AsyncClient() as http:
        reply = await http.post(url, json=INITIALIZE, headers=ACCEPT | {"host": "node.example"})
        assert reply.status_code == 200


async def test_a_page_that_fastmcps_guard_allows_may_read_what_it_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local pages may too, as FastMCP has it."""
    named = {"http_allowed_origins": [ELSEWHERE, "http://lan.example:*"]}
    monkeypatch.setattr("fastmcp.settings", fastmcp.settings.model_copy(update=named))
    async with served(framehold.asgi(FastMCP("n"), Settings(node_id="n"))) as url, httpx2.AsyncClient() as http:
        pages = {ELSEWHERE: 200, "http://lan.example:8080": 200, INSPECTOR: 200, "https://evil.example": 403}
        for origin, status in pages.items():
            reply = await http.post(url, json=INITIALIZE, headers=ACCEPT | {"host": LOCAL, "origin": origin})
            shown = reply.headers.get("access-control-allow-origin")
            assert (reply.status_code, shown) == (status, origin if status == 200 else None)


async def test_what_strangers_send_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    async with served(framehold.asgi(MCPServer("n"), Settings(node_id="n"))) as url, httpx2.AsyncClient() as http:
        for number in range(refusal_log.MAX_LOGGED_NAMES + 5):
            origin = f"http://h{number}.{'x' * 5000}".encode() + b"\x85\xff"
            await http.post(url, headers={b"origin": origin, b"content-type": b"application/json"})
        await http.get(url, headers={b"host": b"evil.test"})
    found = lines(caplog)
    assert len(found) == refusal_log.MAX_LOGGED_NAMES and max(map(len, found)) < 400


async def test_another_refusal_is_not_taken_for_this_one(caplog: pytest.LogCaptureFixture) -> None:
    for origin, challenge in ((b"http://localhost:1", b"x-none"), (b"https://evil.example", b"www-authenticate")):

        async def forbids(scope: Any, receive: Any, send: Any, challenge: bytes = challenge) -> None:
            await send({"type": "http.response.start", "status": 403, "headers": [(challenge, b"x")]})

        async def sent(*_: Any) -> Any: ...

        log = refusal_log.RefusalLog()
        log.allows = Cors(forbids, ["http://localhost:*"]).allows
        await log.around(forbids)({"type": "http", "method": "POST", "headers": [(b"origin", origin)]}, sent, sent)
    assert lines(caplog) == []


ASKS = "authorization,content-type,last-event-id,mcp-method,mcp-name,mcp-param-city,mcp-protocol-version,mcp-session-id"
EXPOSED = "mcp-session-id, www-authenticate, retry-after, framehold-node, framehold-route"


def preflight(origin: str, method: str = "POST", headers: str = ASKS) -> RawRequest:
    """What a browser asks before a page's first request."""
    return RawRequest(
        (("origin", origin), ("access-control-request-method", method), ("access-control-request-headers", headers)),
        b"",
        "OPTIONS",
    )


def about(told: RawResponse) -> dict[str, str]:
    """The headers of a response that browsers go by."""
    names = [name.lower() for name in told.headers]
    found = {name: told.headers[name] for name in names if name.startswith("access-control-") or name == "vary"}
    assert len(set(names)) == len(names), "a header came twice"
    return found


VARIES = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network"


async def test_a_preflight_of_an_allowed_origin() -> None:
    """Each header that it asks for is named back to it, those that mirror a parameter too; no credentials are wanted,
    and nothing is started. Of another method the browser is told which there are."""
    async with twins(compared=False) as client:
        for method in ("POST", "GET", "DELETE"):
            result = await send(client.url, preflight(INSPECTOR, method))
            assert result.status == 200
            assert about(result) == {
                "access-control-allow-origin": INSPECTOR,
                "access-control-allow-methods": "GET, POST, DELETE",
                "access-control-allow-headers": ASKS,
                "access-control-max-age": "600",
                "vary": VARIES,
            }
        result = await send(client.url, preflight(INSPECTOR, "PUT"))
        assert (result.status, result.body) == (400, b"Disallowed CORS method")
        assert client.runtime.counts["entered"] == 0


async def test_rounds_of_a_page() -> None:
    """A call that parks and resumes, as JSON and as a stream: each response says who may read it, and which of its
    headers. A request of no page hears nothing of it."""
    async with twins(compared=False, route_headers=True) as client:
        for request in (await client.parked())[1], raw(client.envelope("tools/list", {})):
            result = await send(client.url, request.adding(origin=INSPECTOR))
            assert result.verdict == (200, "result")
            assert about(result) == {
                "access-control-allow-origin": INSPECTOR,
                "access-control-expose-headers": EXPOSED,
                "vary": "Origin",
            }
            assert result.headers["framehold-node"] == "edge"
        assert about(await send(client.url, raw(client.envelope("tools/list", {})))) == {}


async def test_a_session_of_2025_of_a_page() -> None:
    async with twins(compared=False) as client:
        async with httpx2.AsyncClient(headers={**ACCEPT, "origin": INSPECTOR}) as http:
            begun = await http.post(client.url, json=INITIALIZE)
            session = begun.headers["mcp-session-id"]
            ended = await http.delete(client.url, headers={"mcp-session-id": session})
        assert session.startswith("l1.edge.") and ended.status_code == 200
        for result in (begun, ended):
            assert result.headers["access-control-allow-origin"] == INSPECTOR
            assert result.headers["access-control-expose-headers"] == EXPOSED


ORIGINS = {
    INSPECTOR: True,
    "http://127.0.0.1:1": True,
    "http://[::1]:8080": True,
    "http://localhost": False,
    "https://localhost:6274": False,
    "http://localhost.evil.com:80": False,
    "http://xlocalhost:80": False,
    "http://127x0.0.1:80": False,
    "https://evil.com": False,
    "null": False,
}


async def test_which_origins_are_local() -> None:
    """Just those that the SDK's own check lets pass; any other gets its refusal as it was, and no header of this
    kind. Of two the first counts: no browser sends two."""
    async with twins() as client:
        for origin, allowed in ORIGINS.items():
            request = raw(client.envelope("tools/list", {})).adding(origin=origin)
            ours, theirs = await client.both(request)
            assert ours.verdict[0] == theirs.verdict[0] == (200 if allowed else 403), origin
            if allowed:
                assert about(ours)["access-control-allow-origin"] == origin
                continue
            assert (about(ours), ours.body) == ({}, theirs.body)
            ours, theirs = await client.both(preflight(origin))
            assert (ours.status, about(ours), ours.body) == (theirs.status, {}, theirs.body) and ours.status == 403
        for request in (preflight("https://evil.com"), raw(client.envelope("tools/list", {})).adding(origin="null")):
            ours, theirs = await client.both(request.adding(origin=INSPECTOR))
            assert (ours.status, about(ours), ours.body) == (403, {}, theirs.body)


async def test_origins_that_are_set() -> None:
    """FRAMEHOLD_ALLOWED_ORIGINS says which, instead of the local ones; a dot in it is a dot."""
    settings: dict[str, Any] = {
        "allowed_origins": (ELSEWHERE, "https://*.example.com"),
        "allowed_hosts": ("127.0.0.1:*",),
    }
    async with twins(compared=False, **settings) as client:
        assert about(await send(client.url, preflight(ELSEWHERE)))["access-control-allow-origin"] == ELSEWHERE
        for origin in (INSPECTOR, ELSEWHERE.replace(".", "x"), f"{ELSEWHERE}.evil.com", "https://evil.example.com"):
            for request in (preflight(origin), raw(client.envelope("tools/list", {})).adding(origin=origin)):
                result = await send(client.url, request)
                assert (result.status, about(result)) == (403, {}), origin
    async with twins(compared=False, allowed_hosts=("127.0.0.1:*",)) as client:
        for origin in (INSPECTOR, ELSEWHERE):
            result = await send(client.url, preflight(origin))
            assert (result.status, about(result)) == (403, {}), "an empty list is nobody"


async def test_a_preflight_needs_no_authentication() -> None:
    """It carries none; the request after it must, and the page may read the challenge."""
    async with served(framehold.asgi(guarded(), Settings(node_id="guarded"))) as url, Caller(url) as client:
        result = await send(url, preflight(INSPECTOR))
        assert (result.status, about(result)["access-control-allow-headers"]) == (200, ASKS)
        call = raw(client.envelope("tools/call", {"name": "watch", "arguments": {}})).adding(origin=INSPECTOR)
        challenged = await send(url, call)
        assert challenged.status == 401 and "resource_metadata" in challenged.headers["www-authenticate"]
        assert about(challenged)["access-control-allow-origin"] == INSPECTOR
        assert "www-authenticate" in about(challenged)["access-control-expose-headers"]
        asked = await send(url, call.adding(authorization="Bearer ann/ask/1"))
        assert asked.message["result"]["resultType"] == "input_required"


async def test_through_the_router(redis: RedisServer, tmp_path: Path) -> None:
    async with fleet(tmp_path, redis, "node-1", "node-2") as made:
        router = await made.add_router()
        url = router.url
        result = await send(url, preflight(INSPECTOR))
        direct = await send(made.nodes["node-1"].url, preflight(INSPECTOR))
        assert (result.status, result.body, about(result)) == (200, b"OK", about(direct))
        assert about(result)["access-control-allow-headers"] == ASKS
        async with Caller(url) as caller:
            options: dict[str, Any] = {"arguments": {"name": "a"}, "headers": {"origin": INSPECTOR}}
            reply = await caller.call("three", **options)
            assert reply.headers["access-control-allow-origin"] == INSPECTOR
            assert reply.headers["access-control-expose-headers"] == EXPOSED
            for request in (preflight(ELSEWHERE), raw(caller.envelope("tools/list", {})).adding(origin=ELSEWHERE)):
                refused = await send(url, request)
                assert (refused.status, about(refused)) == (403, {})
