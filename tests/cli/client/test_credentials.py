"""`framehold call` at a server that doesn't let everybody in: the message says what to do, and shows no secret."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

import framehold as public
from framehold.config import Settings
from framehold_cli.call.connection import Endpoint, connected
from framehold_cli.client.addresses import endpoints
from framehold_cli.client.credentials import Credentials
from framehold_cli.client.patient import PatientClient
from framehold_core.errors import ConfigError
from tests.cli.desk import call
from tests.kit.nodes import KEY, served
from tests.node.http.test_authentication import guarded

pytestmark = pytest.mark.anyio

SECRET = "ann/ask/hunter2"


@pytest.fixture(scope="module")
async def guard() -> AsyncIterator[str]:
    """The address of a node that demands a token."""
    async with served(public.asgi(guarded(), Settings(keys=(KEY,), node_id="n1"))) as address:
        yield address


async def test_a_token_lets_in(guard: str) -> None:
    """Each way to give the token works, in each round."""
    for way in (("--token", SECRET), ("--header", f"Authorization=Bearer {SECRET}", "--header", "X-Team=blue")):
        result = await call(guard, *way, "watch", answers="w\n" * 4)
        assert result.returncode == 0 and "last:hunter2>hunter2" in result.stdout, result


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ((), "{url} wants a token (401); give one with --token, or another header with --header NAME=VALUE"),
        (("--header", "X-Team=blue"), "{url} wants a token (401); give one with --token, or another header"),
        (("--token", "eve/ask/hunter2"), "{url} refuses this token (401); give another one with --token"),
        (("--token", "ann/other/hunter2"), "{url} refuses this token (403); give another one with --token"),
    ],
)
async def test_a_refusal_says_what_to_do(guard: str, way: tuple[str, ...], says: str) -> None:
    result = await call(guard, *way, "watch")
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), result
    assert result.stderr.startswith(f"framehold: {says.format(url=guard)}")
    assert result.stderr.endswith("; nothing was called\n") and "hunter2" not in result.stderr


async def test_a_server_that_forbids_and_one_that_is_elsewhere() -> None:
    """403 may have another cause than the token. 404 is most often an address without /mcp."""

    async def forbids(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for name in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{name}.complete"})
            return
        status = 404 if scope["path"].startswith("/weather") else 403
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async with served(forbids) as url:
        result = await call(url, "watch")
        assert result.returncode == 2 and "refuses this client (403); if it wants a token" in result.stderr
        base = url.removesuffix("/mcp")
        result = await call(f"{base}/weather", "watch")
        assert result.returncode == 2 and result.stderr.endswith(
            f"; nothing was called; try --url {base}/weather/mcp or --url {base}/mcp\n"
        )


@pytest.mark.parametrize(
    ("status", "headers", "says"),
    [
        (421, {}, "a node at {url} refuses the Host '{host}' (421); name it in FRAMEHOLD_ALLOWED_HOSTS of each node"),
        (421, {"host": "hunter2"}, "a node at {url} refuses the Host of --header (421); name it in FRAMEHOLD_ALLOWED_"),
        (403, {"origin": "hunter2"}, "maybe for the Origin of --header; if it is one of yours, name it in FRAMEHOLD_A"),
        (503, {}, "{url} answered with HTTP 503; nothing was called; look at its log, or name another --port"),
    ],
)
async def test_a_status_is_told_as_what_it_is(status: int, headers: dict[str, str], says: str) -> None:
    """Somebody answers there: "nobody speaks MCP" and "start a fleet" would be false."""

    async def answers(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("no", status)(scope, receive, send)

    async with served(Starlette(routes=[Mount("/", answers)])) as url:
        server = Endpoint(url, Credentials(headers))
        with pytest.raises(ConfigError, match="nothing was called") as told:
            async with connected(server, PatientClient(lambda _: None, **server.http_options)):
                pass
    assert says.format(url=url, host=url.split("/")[2]) in str(told.value)
    assert "hunter2" not in str(told.value) and "framehold up" not in str(told.value)


def test_where_mcp_may_be_served() -> None:
    assert endpoints("http://h:1/x/mcp") == "--url http://h:1/mcp"
    assert endpoints("http://h:1/") == "--url http://h:1/mcp"
    assert endpoints("http://h:1/mcp") == "another --url"


@pytest.mark.parametrize(
    ("words", "token"),
    [
        (["Authorization: Bearer hunter2=="], None),
        (["hunter2"], None),
        (["X-Key=hunter2\r\nX: y"], None),
        (["X-Key=hunter2é"], None),
        (["X-Key=hunter2", "x-key=hunter2"], None),
        (["Authorization=hunter2"], "hunter2"),
        ([], "hunter2\n hunter2"),
        ([], " "),
        (["X-Key="], None),
    ],
)
def test_what_can_not_be_sent_is_refused_and_not_shown(words: list[str], token: str | None) -> None:
    with pytest.raises(ConfigError, match="nothing was called") as refused:
        Credentials.of(words, token)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(Credentials.of(["X-Key=hunter2"], None))
