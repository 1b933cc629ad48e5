"""The admin token of a shell is for routers of its user's own: no server that is only called is asked with it, and no
server at all gets it. The marks of a list are asked for without it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse

import framehold
from framehold.config import Settings
from framehold_cli import main
from tests.cli.fake_router import NODE
from tests.kit.nodes import KEY, served

pytestmark = pytest.mark.anyio
TOKEN = "the-admin-token-of-production"
PROOF = "/api/v1/access"
"""What anybody is asked for first: the proof that he has the token, too."""


class Stranger:
    """A server that is somebody else's, and notes what its `/api/v1` is sent."""

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[str] = []
        self.sent: set[str] = set()
        self.shown: list[str] = []
        self.says: tuple[dict[str, Any], int] = ({}, 404)

    async def api(self, request: Request) -> JSONResponse:
        """What a router would serve there."""
        self.asked.append(request.url.path)
        self.sent.update(request.headers)
        self.shown += request.headers.values()
        return JSONResponse(*self.says)


async def fails() -> str:
    """Fails, so that a client asks why."""
    raise ValueError("no")


@pytest.fixture
async def stranger() -> AsyncIterator[Stranger]:
    server, made = MCPServer("theirs", version="1"), Stranger()
    server.tool()(fails)
    app = framehold.asgi(server, Settings(keys=(KEY,), node_id="theirs"))
    app.add_route("/api/v1/{rest:path}", made.api)
    async with served(app) as made.url:
        yield made


async def ran(monkeypatch: pytest.MonkeyPatch, *words: str) -> int | str | None:
    """The exit code of a command in this process."""
    monkeypatch.setattr(sys, "argv", ["framehold", *words])
    with pytest.raises(SystemExit) as ended:
        await asyncio.to_thread(main)
    return ended.value.code


@pytest.fixture(params=["variable", "file"])
def shell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A shell that has the token as a variable, or in a file as a pod of the chart has it."""
    if request.param == "variable":
        monkeypatch.setenv("FRAMEHOLD_ADMIN_TOKEN", TOKEN)
    else:
        (tmp_path / "FRAMEHOLD_ADMIN_TOKEN").write_text(TOKEN)
        monkeypatch.setenv("FRAMEHOLD_SECRETS_DIR", str(tmp_path))


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize(("words", "code"), [(("list",), 0), (("call", "fails"), 1)])
async def test_the_token_of_the_shell_is_not_for_a_server_that_is_named(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], code: int
) -> None:
    """With `--api` it signs what is asked there, since that names a router."""
    assert await ran(monkeypatch, *words, "--url", stranger.url) == code
    assert PROOF not in stranger.asked and "authorization" not in stranger.sent
    assert await ran(monkeypatch, "list", "--url", stranger.url, "--api", stranger.url.removesuffix("/mcp")) == 0
    assert PROOF in stranger.asked and TOKEN not in repr(stranger.shown)


async def test_a_token_that_is_given_is_for_the_server_that_its_user_names(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await ran(monkeypatch, "list", "--url", stranger.url, "--admin-token", TOKEN) == 0
    assert stranger.asked == [PROOF] and TOKEN not in repr(stranger.shown)


@pytest.mark.usefixtures("shell")
async def test_this_machine_is_asked_with_the_token_of_its_settings(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port names a router of this machine."""
    port = stranger.url.removesuffix("/mcp").rpartition(":")[2]
    assert await ran(monkeypatch, "list", "--port", port) == 0
    assert stranger.asked == [PROOF] and TOKEN not in repr(stranger.shown)


MARKED = {"handler": 'tool "fails"', "reentrant": True, "asks": False, "strategy": "hold"}


@pytest.mark.parametrize(
    ("says", "shown"),
    [
        (({"nodes": [{**NODE, "handlers": [MARKED]}]}, 200), "re-entrant  Fails, so that a client asks why."),
        (({"error": "no"}, 401), "The marks are not known: they come from the router, which wants its admin token"),
        (({"error": "no node answers"}, 503), "The marks are not known: 503: no node answers."),
        (
            ({}, 404),
            "The marks are not known: {api}/nodes answers 404: no router of this release; name the router by --api",
        ),
    ],
)
async def test_a_router_without_tokens_tells_the_marks(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], says: Any, shown: str
) -> None:
    """It is asked without one, and where it tells none, the reason is its own."""
    stranger.says = says
    assert await ran(monkeypatch, "list", "--url", stranger.url) == 0
    assert shown.format(api=f"{stranger.url.removesuffix('/mcp')}/api/v1") in capsys.readouterr().out
