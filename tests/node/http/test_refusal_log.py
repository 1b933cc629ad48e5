"""What the log says where a host or an origin is refused (`strangers.RefusalLog`)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from fastmcp import FastMCP
from mcp.server import MCPServer

import framehold
from framehold.config import Settings
from framehold.http import refusal_log
from framehold.http.cors import Cors
from tests.node.nodes import served

pytestmark = pytest.mark.anyio

REFUSED = [
    ({"host": "evil.example"}, 421, "Host 'evil.example' is not allowed", "FRAMEHOLD_ALLOWED_HOSTS"),
    (
        {"origin": "https://evil.example"},
        403,
        "Origin 'https://evil.example' is not allowed",
        "FRAMEHOLD_ALLOWED_ORIGINS",
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


async def test_what_strangers_send_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Cut short, readable, and no more than a few of them."""
    async with served(framehold.asgi(MCPServer("n"), Settings(node_id="n"))) as url, httpx2.AsyncClient() as http:
        for number in range(refusal_log.MAX_LOGGED_NAMES + 5):
            origin = f"http://h{number}.{'x' * 5000}".encode() + b"\x85\xff"
            await http.post(url, headers={b"origin": origin, b"content-type": b"application/json"})
        await http.get(url, headers={b"host": b"evil.test"})
    found = lines(caplog)
    assert len(found) == refusal_log.MAX_LOGGED_NAMES and max(map(len, found)) < 400


async def test_another_refusal_is_not_taken_for_this_one(caplog: pytest.LogCaptureFixture) -> None:
    """A 403 to an origin that is allowed, and one that asks for a scope."""
    for origin, challenge in ((b"http://localhost:1", b"x-none"), (b"https://evil.example", b"www-authenticate")):

        async def forbids(scope: Any, receive: Any, send: Any, challenge: bytes = challenge) -> None:
            await send({"type": "http.response.start", "status": 403, "headers": [(challenge, b"x")]})

        async def sent(*_: Any) -> Any: ...

        log = refusal_log.RefusalLog()
        log.allows = Cors(forbids, ["http://localhost:*"]).allows
        await log.around(forbids)({"type": "http", "method": "POST", "headers": [(b"origin", origin)]}, sent, sent)
    assert lines(caplog) == []
