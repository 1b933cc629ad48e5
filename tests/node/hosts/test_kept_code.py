"""A call of each kind of handler is carried on by the code that it began with, on a node that has another release."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import framehold
from framehold.admin.probes import node_state
from framehold.code.codes import Codes
from framehold.config import Settings
from tests.kit.client import Caller, Reply, accepted
from tests.kit.nodes import KEY, served
from tests.kit.redis_server import RedisServer
from tests.node.code.releases import release

pytestmark = pytest.mark.anyio

SERVER = """\
from __future__ import annotations

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resources import ResourceSecurity
from pydantic import BaseModel

import framehold

server = MCPServer("kinds")

class Word(BaseModel):
    word: str

class Pair(BaseModel):
    first: str
    second: str

async def asked(key):
    answer = await framehold.ask(key, "early question?", Word)
    return f"early {answer.data.word}"

@server.tool()
@framehold.reentrant
async def tool(name: str, ctx: Context) -> str:
    return name + ": " + await asked("tool")

@server.tool()
@framehold.reentrant
async def structured(ctx: Context) -> Pair:
    return Pair(first=await asked("structured"), second="early")

class Desk:
    @framehold.reentrant
    async def method(self, ctx: Context) -> str:
        return self.end(await asked("method"))

    def end(self, text):
        return text + ", early end"

desk = Desk()
server.tool()(desk.method)

@server.prompt(description="an early prompt")
@framehold.reentrant
async def prompt(name: str, ctx: Context) -> str:
    return name + ": " + await asked("prompt")

@server.resource("kinds://{name}", meta={"is": "early"}, security=ResourceSecurity(exempt_params={"name"}))
@framehold.reentrant
async def template(name: str, ctx: Context) -> str:
    return name + ": " + await asked("template")
"""
REMOVED = """\
from mcp.server import MCPServer
server = MCPServer("kinds")
class Desk: pass
desk = Desk()
"""
Request = tuple[str, dict[str, Any]]
KINDS: dict[str, tuple[Request, str]] = {
    "tool": (("tools/call", {"name": "tool", "arguments": {"name": "n"}}), "n: early w"),
    "structured": (("tools/call", {"name": "structured", "arguments": {}}), "early w"),
    "method": (("tools/call", {"name": "method", "arguments": {}}), "early w, early end"),
    "prompt": (("prompts/get", {"name": "prompt", "arguments": {"name": "n"}}), "n: early w"),
    "template": (("resources/read", {"uri": "kinds://.."}), "..: early w"),
}
TOOL, SAID = KINDS["tool"]
BESIDE: dict[str, dict[str, Any]] = {
    "structured": {"structuredContent": {"first": "early w", "second": "early"}},
    "prompt": {"description": "an early prompt"},
    "template": {
        "contents": [{"uri": "kinds://..", "mimeType": "text/plain", "text": "..: early w", "_meta": {"is": "early"}}]
    },
}
"""What a reply has beside its text."""


@asynccontextmanager
async def node(module: Any, redis: RedisServer, name: str, **settings: Any) -> AsyncIterator[Caller]:
    usual = {"store_url": redis.url, "keys": (KEY,), "node_id": name, "lease_ttl": 1.0, "route_headers": True}
    app = framehold.asgi(module.server, Settings(**{**usual, **settings}))
    async with served(app) as url, Caller(url) as caller:
        yield caller


async def told(folder: Path, redis: RedisServer, before: str, after: str, request: Request, **settings: Any) -> Reply:
    """What a node that has the release `after` replies to the answer to a question that `before` has asked."""
    method, params = request
    settings["namespace"] = folder.name
    with release(folder / "before", before) as module:
        async with node(module, redis, "a", **settings) as caller:
            reply = await caller.send(method, params)
            assert reply.messages == ["early question?"]
    answers = {key: accepted(word="w") for key in reply.asked}
    with release(folder / "after", after) as module:
        async with node(module, redis, "b", **settings) as caller:
            return await caller.send(method, {**params, "requestState": reply.token, "inputResponses": answers})


CHANGED = SERVER.replace("early", "later")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("after", [CHANGED, REMOVED], ids=["changed", "removed"])
async def test_each_kind_of_handler_goes_on(kind: str, after: str, redis: RedisServer, tmp_path: Path) -> None:
    request, text = KINDS[kind]
    end = await told(tmp_path, redis, SERVER, after, request)
    assert end.headers["framehold-code"] == "kept"
    assert text in str(end.result)
    assert end.result.items() >= BESIDE.get(kind, {}).items()


GOES_ON: dict[str, tuple[str, dict[str, Any], bool]] = {
    "in its token": (CHANGED, {"strategy": "replay"}, True),
    "in its token, where the tool is gone": (REMOVED, {"strategy": "replay"}, True),
    # The promise is that of the code which is entered.
    "whose mark is gone": (CHANGED.replace("\n@framehold.reentrant\n", "\n"), {}, True),
    "whose code is equal": (SERVER.replace("    return name +", "    # a comment\n    return name +"), {}, False),
}


@pytest.mark.parametrize("what", GOES_ON)
async def test_a_call_goes_on(what: str, redis: RedisServer, tmp_path: Path) -> None:
    after, settings, is_kept = GOES_ON[what]
    end = await told(tmp_path, redis, SERVER, after, TOOL, **settings)
    assert end.text == SAID and end.headers.get("framehold-code") == ("kept" if is_kept else None)


OFF = "@framehold.options(keep_code=False)\n"


@pytest.mark.parametrize(
    ("settings", "mark"),
    [({"keep_code": False}, ""), ({"pickle": False}, ""), ({"max_code": 100}, ""), ({}, OFF)],
    ids=["off", "no pickles", "too large", "marked"],
)
async def test_code_that_is_not_kept_diverges_by_name(
    settings: dict[str, Any], mark: str, redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What a setting has switched off is not warned of."""
    before = SERVER.replace("@framehold.reentrant", f"{mark}@framehold.reentrant", 1)
    end = await told(tmp_path, redis, before, before.replace("early", "later"), TOOL, **settings)
    assert end.result["isError"] and "came to something else than it did before" in end.text
    assert "framehold-code" not in end.headers
    assert ("is not kept" in caplog.text) == (bool(mark) or "max_code" in settings)


async def test_the_status_of_a_node_names_kept_code_by_digest_and_size(redis: RedisServer, tmp_path: Path) -> None:
    with release(tmp_path / "only", SERVER) as module:
        app = framehold.asgi(module.server, Settings(store_url=redis.url, keys=(KEY,), namespace=tmp_path.name))
        async with served(app):
            state = node_state(app.attached)
        method, params = TOOL
        handler = app.attached.handlers.find(method, params)
        digest, size = handler.code(), len(handler.written())
    assert state.not_kept == ()
    found = {item.handler: item for item in state.kept_code}
    assert set(found) == {
        'tool "tool"', 'tool "structured"', 'tool "method"', 'prompt "prompt"', 'resource "kinds://{name}"'
    }  # fmt: skip
    assert (found['tool "tool"'].digest, found['tool "tool"'].bytes) == (digest, size)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_first_call_reads_no_code(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node has read it when it started, with a store in memory too: to read files would hold up the event loop."""
    (method, params), _ = KINDS[kind]
    with release(tmp_path / "only", SERVER) as module:
        app = framehold.asgi(module.server, Settings(node_id="a"))
        async with served(app) as url, Caller(url) as caller:
            monkeypatch.delattr(Codes, "_found")
            reply = await caller.send(method, params)
            assert reply.messages == ["early question?"]


async def test_a_handler_whose_code_can_not_be_kept_is_named_at_the_start(
    redis: RedisServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = SERVER.replace("async def asked(key):", "async def asked(key, lock=asyncio.Lock()):").replace(
        "from mcp.server import MCPServer", "import asyncio\nfrom mcp.server import MCPServer"
    )
    with release(tmp_path / "only", text) as module:
        async with node(module, redis, "a", namespace=tmp_path.name):
            for name in ('tool "tool"', 'prompt "prompt"', 'resource "kinds://{name}"'):
                held = "the default of 'lock' of server.asked is an object of asyncio.locks.Lock"
                line = f"the code of {name} is not kept: {held}"
                assert line in caplog.text
            assert caplog.text.count("is not kept") == len(KINDS)
