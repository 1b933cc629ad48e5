"""What browsers are told: an inspector's page of an allowed origin may do what any client may, other pages nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

import framehold
from framehold.config import Settings
from tests.fleet.fleet import fleet
from tests.node.http.test_authentication import guarded
from tests.node.http.test_relay import ACCEPT, INITIALIZE
from tests.node.nodes import served
from tests.node.served import Said, Wire, edge, send, wire
from tests.store.server import RedisServer
from tests.wire import Caller

pytestmark = pytest.mark.anyio

INSPECTOR = "http://localhost:6274"
ELSEWHERE = "https://inspector.example.com"
ASKS = "authorization,content-type,last-event-id,mcp-method,mcp-name,mcp-param-city,mcp-protocol-version,mcp-session-id"
EXPOSED = "mcp-session-id, www-authenticate, retry-after, framehold-node, framehold-route"


def preflight(origin: str, method: str = "POST", headers: str = ASKS) -> Wire:
    """What a browser asks before a page's first request."""
    return Wire(
        (("origin", origin), ("access-control-request-method", method), ("access-control-request-headers", headers)),
        b"",
        "OPTIONS",
    )


def about(told: Said) -> dict[str, str]:
    """The headers of a response that browsers go by."""
    names = [name.lower() for name in told.headers]
    found = {name: told.headers[name] for name in names if name.startswith("access-control-") or name == "vary"}
    assert len(set(names)) == len(names), "a header came twice"
    return found


VARIES = "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, Access-Control-Request-Private-Network"


async def test_a_preflight_of_an_allowed_origin() -> None:
    """Each header that it asks for is named back to it, those that mirror a parameter too; no credentials are wanted,
    and nothing is started. Of another method the browser is told which there are."""
    async with edge(compared=False) as client:
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
    async with edge(compared=False, route_headers=True) as client:
        for request in (await client.parked())[1], wire(client.envelope("tools/list", {})):
            result = await send(client.url, request.adding(origin=INSPECTOR))
            assert result.verdict == (200, "result")
            assert about(result) == {
                "access-control-allow-origin": INSPECTOR,
                "access-control-expose-headers": EXPOSED,
                "vary": "Origin",
            }
            assert result.headers["framehold-node"] == "edge"
        assert about(await send(client.url, wire(client.envelope("tools/list", {})))) == {}


async def test_a_session_of_2025_of_a_page() -> None:
    async with edge(compared=False) as client:
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
    async with edge() as client:
        for origin, allowed in ORIGINS.items():
            request = wire(client.envelope("tools/list", {})).adding(origin=origin)
            ours, theirs = await client.both(request)
            assert ours.verdict[0] == theirs.verdict[0] == (200 if allowed else 403), origin
            if allowed:
                assert about(ours)["access-control-allow-origin"] == origin
                continue
            assert (about(ours), ours.body) == ({}, theirs.body)
            ours, theirs = await client.both(preflight(origin))
            assert (ours.status, about(ours), ours.body) == (theirs.status, {}, theirs.body) and ours.status == 403
        for request in (preflight("https://evil.com"), wire(client.envelope("tools/list", {})).adding(origin="null")):
            ours, theirs = await client.both(request.adding(origin=INSPECTOR))
            assert (ours.status, about(ours), ours.body) == (403, {}, theirs.body)


async def test_origins_that_are_set() -> None:
    """FRAMEHOLD_ALLOWED_ORIGINS says which, instead of the local ones; a dot in it is a dot."""
    settings: dict[str, Any] = {
        "allowed_origins": (ELSEWHERE, "https://*.example.com"),
        "allowed_hosts": ("127.0.0.1:*",),
    }
    async with edge(compared=False, **settings) as client:
        assert about(await send(client.url, preflight(ELSEWHERE)))["access-control-allow-origin"] == ELSEWHERE
        for origin in (INSPECTOR, ELSEWHERE.replace(".", "x"), f"{ELSEWHERE}.evil.com", "https://evil.example.com"):
            for request in (preflight(origin), wire(client.envelope("tools/list", {})).adding(origin=origin)):
                result = await send(client.url, request)
                assert (result.status, about(result)) == (403, {}), origin
    async with edge(compared=False, allowed_hosts=("127.0.0.1:*",)) as client:
        for origin in (INSPECTOR, ELSEWHERE):
            result = await send(client.url, preflight(origin))
            assert (result.status, about(result)) == (403, {}), "an empty list is nobody"


async def test_a_preflight_needs_no_authentication() -> None:
    """It carries none; the request after it must, and the page may read the challenge."""
    async with served(framehold.asgi(guarded(), Settings(node_id="guarded"))) as url, Caller(url) as client:
        result = await send(url, preflight(INSPECTOR))
        assert (result.status, about(result)["access-control-allow-headers"]) == (200, ASKS)
        call = wire(client.envelope("tools/call", {"name": "watch", "arguments": {}})).adding(origin=INSPECTOR)
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
            for request in (preflight(ELSEWHERE), wire(caller.envelope("tools/list", {})).adding(origin=ELSEWHERE)):
                refused = await send(url, request)
                assert (refused.status, about(refused)) == (403, {})
