"""The code of FastMCP's components goes along: what was registered in one release runs in the frames of the next."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastmcp import Context, FastMCP
from fastmcp.exceptions import NotFoundError
from fastmcp.server.middleware.tool_injection import ToolInjectionMiddleware
from fastmcp.server.providers.base import Provider
from fastmcp.tools import Tool

import framehold
from framehold.code.codes import NotKept, Registered, read
from framehold.config import Settings
from framehold.hosts.fastmcp_code import component_handler, find_kept_first
from framehold.hosts.fastmcp_components import author_of, found
from framehold.hosts.handlers import Handlers
from framehold.hosts.host_choice import host_of
from framehold.sdk.wrapped_handler import FoundHandler
from framehold_core.errors import StoreUnavailable
from tests.kit.client import Reply
from tests.kit.fastmcp_serving import Hosted
from tests.kit.nodes import served
from tests.kit.redis_server import RedisServer
from tests.node.code.releases import codes, release

pytestmark = pytest.mark.anyio

BEGIN = """\
from __future__ import annotations
from typing import Annotated
from fastmcp import Context, FastMCP
from fastmcp.dependencies import CurrentContext, Depends
from fastmcp.resources import ResourceSecurity
from fastmcp.tools import Tool
from pydantic import BaseModel
mcp = FastMCP("shop")
def word(): return "old"
class Form(BaseModel):
    word: str = "old"
"""
TOOL, PROMPT, READ = ("tools/call", "it"), ("prompts/get", "it"), ("resources/read", "a://it/..x")
KINDS: dict[str, tuple[tuple[str, str], str]] = {
    "a tool": (TOOL, "@mcp.tool\nasync def it() -> str: return word()"),
    "a tool with a context": (
        TOOL,
        "@mcp.tool\nasync def it(ctx: Context) -> str: return word() + (ctx.fastmcp.name * 0)",
    ),
    "a tool without an output schema": (TOOL, "@mcp.tool(output_schema=None)\nasync def it() -> str: return word()"),
    "a tool that returns a model": (TOOL, "@mcp.tool\nasync def it() -> Form: return Form()"),
    "a tool that was made of a function": (
        TOOL,
        'async def other(): return word()\nmcp.add_tool(Tool.from_function(other, name="it"))',
    ),
    "a tool that is a method": (
        TOOL,
        "class Desk:\n    async def it(self, ctx: Context): return word()\n"
        "desk = Desk()\nmcp.add_tool(Tool.from_function(desk.it))",
    ),
    "a tool with a dependency": (TOOL, "@mcp.tool\nasync def it(said: str = Depends(word)) -> str: return said"),
    "a tool with a dependency of a dependency": (
        TOOL,
        "def outer(said: str = Depends(word), ctx: Context = CurrentContext()): return said\n"
        "@mcp.tool\nasync def it(said: str = Depends(outer), ctx: Context = CurrentContext()) -> str: return said",
    ),
    "a tool that may be called by few": (
        TOOL,
        "import threading\nlock = threading.local()\n"
        "def made(lock): return lambda context: lock is not None\n"
        "@mcp.tool(auth=made(threading.Lock()), tags={'a'})\nasync def it() -> str: return word()",
    ),
    "a tool with arguments": (
        TOOL,
        "@mcp.tool\nasync def it(form: Form, count: int, ctx: Context) -> str: return f'{form!r} {count!r} {word()}'",
    ),
    "a prompt with arguments": (
        PROMPT,
        "@mcp.prompt\nasync def it(count: int, ctx: Context) -> str: return f'{count!r} {word()}'",
    ),
    "a template with arguments": (
        ("resources/read", "a://it/3?said=x"),
        '@mcp.resource("a://it/{count}{?said}")\n'
        "async def it(ctx: Context, count: int, said: Annotated[str, 'x'] = '') -> str:\n"
        "    return f'{said} {count!r} {word()}'",
    ),
    "a prompt": (PROMPT, '@mcp.prompt(description="said")\nasync def it(ctx: Context) -> str: return word()'),
    "a resource": (
        READ,
        '@mcp.resource("a://it/..x", mime_type="text/x", meta={"n": 1})\n'
        "async def it(ctx: Context) -> str: return word()",
    ),
    "a template": (
        READ,
        '@mcp.resource("a://it/..{rest}", mime_type="text/x")\n'
        "async def it(rest: str, ctx: Context) -> str: return word()",
    ),
    "a template with its own security and a dependency": (
        ("resources/read", "a://it/.."),
        '@mcp.resource("a://it/{rest}", security=ResourceSecurity(exempt_params={"rest"}))\n'
        "async def it(rest: str, said: str = Depends(word)) -> str: return said",
    ),
}
"""A component that returns `old`, with the request that it serves."""
LONE = ("a resource", *(kind for kind in KINDS if "arguments" in kind))
OTHERS = {
    "nothing": "",
    "a tool": "@mcp.tool\nasync def it() -> int: return 3",
    "a prompt": "@mcp.prompt\nasync def it() -> str: return 'new'",
    "a resource": '@mcp.resource("a://it/..x")\nasync def it() -> str: return "new"',
    "a template": '@mcp.resource("a://{one}/{two}")\nasync def it(one: str, two: str) -> str: return "new"',
}
"""What the next release has in the place of that."""


async def lookup(server: FastMCP[Any], method: str, name: str) -> FoundHandler:
    """The look-up of what a server has for a request. What it enters is FastMCP's own way to the component."""

    async def enter(ctx: Any, params: Any) -> Any:
        return await run(server, method, name)

    entry = await found(server, method, name, None, [])
    fn, served = (None, None) if entry is None else (author_of(entry.component), entry.served)
    return component_handler(server, name, fn, served, enter, codes())


async def run(server: FastMCP[Any], method: str, name: str) -> Any:
    """The result of a request, as FastMCP comes to it."""
    if method == "tools/call":
        tool = await server.get_tool(name)
        takes = tool is not None and "form" in tool.parameters["properties"]
        given = {"form": {"word": "x"}, "count": 3} if takes else {}
        return (await server.call_tool(name, given)).to_mcp_result()
    if method == "prompts/get":
        prompt = await server.get_prompt(name)
        takes = prompt is not None and bool(prompt.arguments)
        return (await server.render_prompt(name, {"count": "3"} if takes else {})).to_mcp_prompt_result()
    return (await server.read_resource(name)).to_mcp_result(name)


async def carried(folder: Path, request: tuple[str, str], before: str, after: str) -> tuple[Any, Any]:
    """The result of a component of a release, and its result where it is entered in the next release."""
    with release(folder / "before", before) as module:
        result = await run(module.mcp, *request)
        data = (await lookup(module.mcp, *request)).written()
    with release(folder / "after", after) as module:
        find_kept_first(module.mcp)
        enter: Any = (await lookup(module.mcp, *request)).kept(read(data).handler)
        kept = await enter(None, None)
        try:
            present = await run(module.mcp, *request)
        except NotFoundError:
            present = None
        assert present != kept, "outside of its frame there is nothing of it"
        return result, kept


@pytest.mark.parametrize("kind", KINDS)
async def test_a_component_goes_along_as_it_was_registered(kind: str, tmp_path: Path) -> None:
    request, text = KINDS[kind]
    before = BEGIN + text
    was, kept = await carried(tmp_path, request, before, before.replace("old", "new"))
    assert kept == was and "old" in str(kept)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", LONE)
async def test_it_goes_along_where_the_next_release_has_something_else(kind: str, other: str, tmp_path: Path) -> None:
    """Its module has lost all that it is made of."""
    request, text = KINDS[kind]
    lost = "from fastmcp import FastMCP\nmcp = FastMCP('shop')\n"
    was, kept = await carried(tmp_path, request, BEGIN + text, lost + OTHERS[other])
    assert kept == was and "old" in str(kept)


async def test_other_requests_of_a_kept_handler_find_the_present_components(tmp_path: Path) -> None:
    """Kept is the one component. A tool that it calls by name is the present one."""
    text = BEGIN + (
        "@mcp.tool\nasync def other() -> str: return word()\n"
        "@mcp.tool\nasync def it(ctx: Context) -> str:\n"
        "    inner = await ctx.fastmcp.call_tool('other')\n    return word() + ' ' + inner.content[0].text"
    )
    was, kept = await carried(tmp_path, TOOL, text, text.replace('"old"', '"new"'))
    assert "old old" in str(was) and "old new" in str(kept)


async def test_a_tool_that_was_injected_gives_way_to_kept_code(tmp_path: Path) -> None:
    request, text = KINDS["a tool"]
    with release(tmp_path / "before", BEGIN + text) as module:
        data = (await lookup(module.mcp, *request)).written()
    injected = Tool.from_function(lambda: "new", name="it")
    server: FastMCP[Any] = FastMCP("shop", middleware=[ToolInjectionMiddleware([injected])])
    find_kept_first(server)
    enter: Any = (await lookup(server, *request)).kept(read(data).handler)
    assert "old" in str(await enter(None, None)) and "new" in str(await run(server, *request))


# ---- the digest

EDITS = {
    "a tool": ("@mcp.tool", "@mcp.tool(timeout=3)"),
    "a tool without an output schema": ("output_schema=None", 'output_schema={"type": "object"}'),
    "a tool that returns a model": ("@mcp.tool", '@mcp.tool(meta={"a": 1})'),
    "a tool that was made of a function": ('name="it"', 'name="it", run_in_thread=False'),
    "a tool with a dependency": ('return "old"', 'return "new"'),
    "a prompt": ('description="said"', 'description="told"'),
    "a resource": ("text/x", "text/y"),
    "a template": ("text/x", "text/y"),
    "a template with its own security and a dependency": ('exempt_params={"rest"}', 'exempt_params={"none"}'),
}
NO_EDITS = {
    "a tool": ("@mcp.tool", '@mcp.tool(title="T", description="said", tags={"x"}, annotations={"title": "t"})'),
    "a tool that may be called by few": ("lock is not None", "lock is not True"),
    "a prompt": ('description="said"', 'description="said", title="T"'),
}


@pytest.mark.parametrize(
    ("kind", "edit", "counts"),
    [*((kind, edit, True) for kind, edit in EDITS.items()), *((kind, edit, False) for kind, edit in NO_EDITS.items())],
)
async def test_what_has_an_effect_on_a_call_is_part_of_its_digest(
    kind: str, edit: tuple[str, str], counts: bool, tmp_path: Path
) -> None:
    request, text = KINDS[kind]
    before, after = edit
    assert before in BEGIN + text
    digests = []
    for folder, edited in (("1", BEGIN + text), ("2", (BEGIN + text).replace(before, after))):
        with release(tmp_path / folder, edited) as module:
            digests.append((await lookup(module.mcp, *request)).code())
    assert (digests[0] != digests[1]) is counts


# ---- what is not kept


class Own(Tool):
    fn: Any

    async def run(self, arguments: dict[str, Any]) -> Any:
        return await self.fn()


async def plain(ctx: Context) -> str:
    return "said"


async def test_what_can_not_be_made_again_is_named() -> None:
    child, server = FastMCP[Any]("child"), FastMCP[Any]("outer")
    child.tool(plain), child.prompt(plain), child.resource("a://b")(plain)
    server.mount(child, namespace="in")
    server.add_tool(Tool.from_tool(Tool.from_function(plain), name="renamed"))
    server.add_tool(Own(name="own", parameters={}, fn=plain))
    mounted, transformed = "a component of a mounted server", "a transformed tool"
    for method, name, why in (
        ("tools/call", "in_plain", mounted),
        ("prompts/get", "in_plain", mounted),
        ("resources/read", "a://in/b", mounted),
        ("tools/call", "renamed", transformed),
        ("tools/call", "own", f"a component of the class {__name__}.Own"),
    ):
        seen = await lookup(server, method, name)
        assert len(seen.code()) == 32
        with pytest.raises(NotKept, match=why):
            seen.written()


async def test_they_are_named_when_a_server_starts() -> None:
    """With the names that clients use, and only if they are marked."""
    marked = framehold.reentrant(other)
    child, server = FastMCP[Any]("child"), FastMCP[Any]("outer")
    child.tool(marked), child.tool(plain)
    server.mount(child, namespace="in")
    server.tool(marked), server.prompt(marked)
    server.add_tool(Own(name="own", parameters={}, fn=marked))
    known = {item.name: item.problem for item in Handlers(host_of(server)).kept_code(1 << 20)}
    own = f"it is a component of the class {__name__}.Own, and FastMCP can't make it again"
    in_child = "it is a component of a mounted server"
    assert known == {'tool "other"': "", 'prompt "other"': "", 'tool "own"': own, 'tool "in_other"': in_child}


async def test_a_component_that_can_not_be_made_here_is_not_entered() -> None:
    """Another release of fastmcp may have written it."""
    seen = await lookup(FastMCP("shop"), *TOOL)
    for about in ({}, {"kind": "FunctionTool", "guarded": False, "no_such_value": 1}):
        with pytest.raises((KeyError, TypeError)):
            seen.kept(Registered(plain, about, *TOOL, True))


# ---- a component that the present release does not have


async def _kept(kept: Any, state: str) -> Any:
    if isinstance(kept, Exception):
        raise kept
    return kept


class Gone(Hosted):
    """A client of a server whose component goes while its call waits."""

    async def begun(self, server: FastMCP[Any], kept: Any) -> Reply:
        """A call that waits, whose tool the server loses. `kept` is what the store has of its code, or an error."""
        reply = await self.send("tools/call", {"name": "ask"})
        server.local_provider.remove_tool("ask")
        self.runtime.kept_code = partial(_kept, kept)
        return reply

    async def ends(self, reply: Reply) -> Reply:
        again = {"name": "ask", "requestState": reply.token, "inputResponses": reply.accept(value="a")}
        return await self.send("tools/call", again)


@asynccontextmanager
async def gone_from(server: FastMCP[Any]) -> AsyncIterator[Gone]:
    app = framehold.asgi(server, Settings(node_id="gone"))
    async with served(app) as url, Gone(url) as caller:
        caller.runtime = app.attached.runtime
        yield caller


async def ask(ctx: Context) -> str:
    return repr(await ctx.elicit("word?", str))


async def other(ctx: Context) -> str:
    """The same name, in the next release."""
    return "other"


def asking() -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("gone")
    server.tool(ask)
    return server


class Unseen(Provider):
    """A provider that the walk can't read."""


def registered(guarded: bool) -> Registered:
    return Registered(framehold.reentrant(ask), {"guarded": guarded}, "tools/call", "ask", True)


async def test_a_call_goes_on_whose_tool_is_gone_if_its_code_is_kept() -> None:
    server = asking()
    async with gone_from(server) as caller:
        reply = await caller.begun(server, StoreUnavailable("away"))
        assert (await caller.ends(reply)).status == 503
        caller.runtime.kept_code = partial(_kept, registered(False))
        assert "data='a'" in (await caller.ends(reply)).text
        fresh = await caller.send("tools/call", {"name": "ask"})
        assert fresh.text == "Unknown tool: 'ask'"


def hidden() -> FastMCP[Any]:
    server: FastMCP[Any] = FastMCP("child")
    server.tool(other, name="ask")
    server.disable(names={"ask"})
    return server


def nothing(server: FastMCP[Any]) -> None:
    """The tool stays gone."""


GONE = registered(False)
STAYS: dict[str, tuple[Any, Callable[[FastMCP[Any]], Any]]] = {
    "its code is not kept": (None, nothing),
    "nobody decides any more who may call it": (registered(True), nothing),
    "its code does not say who might": (Registered(ask, {}, "tools/call", "ask", True), nothing),
    "it is the code of another tool": (GONE._replace(name="other"), nothing),
    "it is the code of a prompt": (GONE._replace(method="prompts/get"), nothing),
    "it is hidden for this user": (GONE, lambda server: server.tool(other, name="ask", auth=lambda context: False)),
    "it is hidden for everybody": (
        GONE,
        lambda server: (server.tool(other, name="ask"), server.disable(names={"ask"})),
    ),
    "it is hidden on a mounted server": (GONE, lambda server: server.mount(hidden())),
    "it may be hidden": (GONE, lambda server: server.add_provider(Unseen())),
}


@pytest.mark.parametrize("why", STAYS)
async def test_a_tool_that_is_gone_is_unknown_if(why: str) -> None:
    """As FastMCP tells it; the call waits on."""
    kept, change = STAYS[why]
    server = asking()
    async with gone_from(server) as caller:
        reply = await caller.begun(server, kept)
        change(server)
        result = await caller.ends(reply)
        assert result.result["isError"] and result.text == "Unknown tool: 'ask'"
        assert caller.runtime.counts["resumed"] == 0


@framehold.reentrant
async def shop(ctx: Context) -> str:
    words: list[Any] = [await ctx.elicit(f"{number}?", str) for number in (1, 2, 3)]
    return " ".join(word.data for word in words)


@pytest.mark.parametrize("strategy", ["hold", "replay"])
@pytest.mark.parametrize("changed", [False, True], ids=["gone", "changed"])
async def test_a_node_of_the_next_release_finishes_a_call(
    strategy: str, changed: bool, redis: RedisServer, tmp_path: Path
) -> None:
    """Whether its record is in the store or in its token; one more round of it is parked there."""
    old, new = FastMCP[Any]("shop"), FastMCP[Any]("shop")
    old.tool(shop, timeout=60)
    if changed:
        new.tool(framehold.reentrant(other), name="shop")
    reply, ended = None, {"name": "shop"}
    for node, server, answers in (("old", old, ["a"]), ("new", new, ["b", "c"])):
        settings: dict[str, Any] = {"store_url": redis.url, "namespace": tmp_path.name, "keys": "k" * 32}
        app = framehold.asgi(server, Settings(node_id=node, strategy=strategy, drain_timeout=0, **settings))
        async with served(app) as url, Hosted(url) as caller:
            reply = reply or await caller.send("tools/call", ended)
            for answer in answers:
                again = {**ended, "requestState": reply.token, "inputResponses": reply.accept(value=answer)}
                reply = await caller.send("tools/call", again)
            if node == "new":
                assert app.attached.runtime.counts["kept code"] > 0
                assert (await caller.send("tools/call", again)).text == reply.text == "a b c"
