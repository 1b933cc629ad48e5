"""Which handler a request goes to, what is promised of it, and what is made of that before anything is served."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp.server import MCPServer, Server
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resources import Resource, TextResource
from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp.types import CallToolRequestParams

import framehold
from framehold import attach as attached_to
from framehold.config import Settings, load
from framehold.hosts.handlers import Handlers
from framehold.hosts.host_choice import host_of
from framehold.sdk.marks import Marks
from framehold.sdk.seam import Seam
from framehold.sdk.state_codec import PrefixCodec
from framehold_core.clock import Clock
from framehold_core.errors import ConfigError
from framehold_core.ids import CallId
from framehold_router.config import RouterSettings

pytestmark = pytest.mark.anyio

REPLAY = Settings(strategy="replay")
NOBODY = Marks()


class Kept(Resource):
    @framehold.options(ttl=7)
    async def read(self) -> str:
        return ""


def fresh() -> Any:
    async def handler(ctx: Context) -> str:
        return ""

    return handler


async def _rest(rest: str, ctx: Context) -> str:
    return ""


def server() -> MCPServer[Any]:
    mcp = MCPServer("handlers")

    def sync() -> None: ...

    async def alone() -> str:
        return ""

    async def one(ctx: Context) -> str:
        return ""

    async def below(ctx: Context) -> str:
        return ""

    async def named(name: str, ctx: Context) -> str:
        return ""

    mcp.add_tool(sync)
    mcp.tool(name="unmarked")(one)
    mcp.tool()(framehold.options(ttl=1)(below))
    framehold.options(ttl=2)(mcp.tool(name="renamed")(fresh()))
    framehold.options(ttl=3)(mcp.prompt(name="prompt")(fresh()))
    framehold.options(ttl=4)(mcp.resource("u://one")(alone))
    framehold.options(ttl=5)(mcp.resource("u://some/{name}")(named))
    framehold.options(ttl=6)(mcp.resource("u://{+rest}")(_rest))
    mcp.add_resource(Kept(uri="u://kept"))
    mcp.add_resource(TextResource(uri="u://text", text=""))
    return mcp


TTLS: Sequence[tuple[str, dict[str, Any], float | None]] = [
    ("tools/call", {"name": "below"}, 1),
    ("tools/call", {"name": "renamed"}, 2),
    ("tools/call", {"name": "unmarked"}, None),
    ("tools/call", {"name": "prompt"}, None),
    ("prompts/get", {"name": "prompt"}, 3),
    ("prompts/get", {"name": "below"}, None),
    ("resources/read", {"uri": "u://one"}, 4),
    ("resources/read", {"uri": "u://kept"}, 7),
    ("resources/read", {"uri": "u://text"}, None),
    ("resources/read", {"uri": "u://some/a"}, 5),
    ("resources/read", {"uri": "u://other"}, 6),
    ("resources/read", {"uri": "u://some/.."}, None),
    ("resources/read", {"uri": 7}, None),
    ("tools/call", {}, None),
    ("tools/call", {"name": ["below"]}, None),
    ("tools/list", {}, None),
]


@pytest.mark.parametrize(("method", "params", "ttl"), TTLS)
def test_the_handler_that_the_sdk_would_enter(method: str, params: dict[str, Any], ttl: float | None) -> None:
    assert Handlers(host_of(server())).find(method, params).marks.ttl == ttl


async def test_a_resource_is_not_made_to_be_looked_up() -> None:
    mcp, entered = MCPServer("m"), []

    @mcp.resource("u://{name}")
    @framehold.reentrant
    async def read(name: str, ctx: Context) -> str:
        entered.append(name)
        return ""

    assert Handlers(host_of(mcp)).find("resources/read", {"uri": "u://a"}).marks.reentrant
    assert Handlers(host_of(mcp)).find("resources/read", {"uri": "u://.."}).marks == NOBODY
    assert entered == []


def named(fn: Any) -> Any:
    fn.__name__ = "named"
    return fn


def test_handlers_come_and_go() -> None:
    """Each look-up sees what is registered then, also under a name that was another's."""
    mcp = MCPServer("m")
    handlers = Handlers(host_of(mcp))

    async def book(ctx: Context) -> None: ...

    call = {"name": "book"}
    assert handlers.find("tools/call", call).marks == NOBODY
    mcp.add_tool(framehold.options(ttl=1)(book))
    assert handlers.find("tools/call", call).marks.ttl == 1
    framehold.options(ttl=2)(book)
    assert handlers.find("tools/call", call).marks.ttl == 2
    mcp.remove_tool("book")
    assert handlers.find("tools/call", call).marks == NOBODY
    mcp.add_tool(named(functools.partial(book)), name="book")
    assert handlers.find("tools/call", call).marks.ttl == 2
    mcp.remove_tool("book")
    mcp.add_tool(lambda: None, name="book")
    assert handlers.find("tools/call", call).marks.ttl is None


async def ask(ctx: Any, params: Any) -> Any: ...


def low(fn: Any = ask) -> Server[Any]:
    made: Server[Any] = Server("low")
    made.add_request_handler("tools/call", CallToolRequestParams, fn)
    return made


def test_a_low_level_handler_speaks_for_all_its_tools() -> None:
    @framehold.reentrant
    async def marked(ctx: Any, params: Any) -> Any: ...

    made = low(marked)
    handlers = Handlers(host_of(made))
    for _ in range(2):
        for name in ("one", "two"):
            assert handlers.find("tools/call", {"name": name}).marks.reentrant
        assert handlers.find("prompts/get", {"name": "one"}).marks == NOBODY
        assert handlers.find("tools/list", {}).marks == NOBODY
        attached_to(made)
    entry = made.get_request_handler("tools/call")
    assert entry is not None and isinstance(entry.handler, Seam)
    assert entry.handler.wrapped.find("tools/call", {"name": "one"}).marks.reentrant
    assert entry.handler.wrapped.params_type is CallToolRequestParams


class Observers(Extension):
    identifier = "test/watches"

    async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)


@pytest.mark.parametrize("low_first", [True, False])
@pytest.mark.parametrize("extensions", [(), (Observers(),)])
def test_an_mcpserver_is_remembered(low_first: bool, extensions: tuple[Extension, ...]) -> None:
    """Whichever of it and its low-level server is attached first, and whatever an extension puts in between."""
    mcp = MCPServer("m", extensions=extensions)

    @mcp.tool()
    @framehold.reentrant
    async def book(ctx: Context) -> None: ...

    inner = host_of(mcp).lowlevel
    attached = [attached_to(one) for one in ((inner, mcp) if low_first else (mcp, inner))]
    assert attached[0] is attached[1]
    assert attached[0].handlers.find("tools/call", {"name": "book"}).marks.reentrant
    assert attached[0].handlers.find("tools/call", {"name": "other"}).marks == NOBODY


def promising() -> MCPServer[Any]:
    mcp = MCPServer("promising")

    def sync(ctx: Context) -> str:
        return ""

    class Object:
        async def __call__(self, ctx: Context) -> str:
            return ""

    mcp.add_tool(fresh(), name="unmarked")
    mcp.add_tool(framehold.reentrant(fresh()), name="safe")
    mcp.add_tool(framehold.options(strategy="hold")(fresh()), name="held")
    mcp.add_tool(framehold.options(ttl=5)(fresh()), name="brief")
    mcp.add_tool(sync, name="sync")
    mcp.add_tool(framehold.options(strategy="replay")(named(functools.partial(sync))), name="sync_replay")
    mcp.add_tool(named(functools.partial(fresh())), name="partial")
    mcp.add_tool(named(Object()), name="object")
    mcp.prompt("talk")(fresh())
    mcp.prompt("safe_talk")(framehold.reentrant(fresh()))
    mcp.resource("u://{a}")(_template)
    mcp.resource("u://one")(_concrete)
    mcp.add_resource(Kept(uri="u://kept"))
    mcp.add_resource(TextResource(uri="u://text", text=""))
    return mcp


async def _template(a: str, ctx: Context) -> str:
    return a


async def _concrete() -> str:
    return ""


UNMARKED: tuple[str, ...] = ('tool "unmarked"', 'tool "brief"', 'tool "partial"', 'tool "object"', 'prompt "talk"')
UNMARKED += ('resource "u://one"', 'resource "u://kept"', 'resource "u://{a}"')


def test_the_unmarked_are_those_that_may_ask_and_promise_nothing() -> None:
    """What is sync has no await; what is held is never entered twice. They are counted: how many may ask, are
    re-entrant, are replayed."""
    handlers = Handlers(host_of(promising()))
    assert handlers.unmarked() == UNMARKED and handlers.replayed_unmarked("hold") == ()
    assert (handlers.count("hold"), handlers.count("replay")) == ((11, 2, 0), (11, 2, 10))
    assert Handlers(host_of(low())).unmarked() == ('handler of "tools/call"',)
    assert Handlers(host_of(low(framehold.reentrant(functools.partial(ask))))).unmarked() == ()


async def start(one: Any) -> None:
    async with host_of(one).lowlevel.lifespan(host_of(one).lowlevel):
        pass


async def test_strategy_replay_refuses_the_unmarked_at_start() -> None:
    """All of them by name; and says what would help."""
    mcp = promising()
    attached = attached_to(mcp, REPLAY)
    for attempt in (attached.check, None):
        with pytest.raises(ConfigError) as result:
            attempt() if attempt else await start(mcp)
        text = str(result.value)
        assert f"not marked re-entrant: {', '.join(UNMARKED)}; nothing was started; mark each" in text
        assert "@framehold.reentrant if all its effects are pure or under once, else with @framehold.options(" in text
        assert text.endswith(", or leave all frames in memory with FRAMEHOLD_STRATEGY=hold") and "\n" not in text
    served = promising()
    attached_to(served, Settings())
    await start(served)


@pytest.mark.parametrize("settings", [Settings(), REPLAY], ids=["hold", "replay"])
async def test_a_handler_of_strategy_replay_needs_the_promise_whatever_the_setting(settings: Settings) -> None:
    mcp = MCPServer("m")
    book = framehold.options(strategy="replay")(fresh())
    mcp.tool(name="book")(book)
    attached_to(mcp, settings)
    with pytest.raises(ConfigError, match=r'not marked re-entrant: tool "book"; nothing was started') as result:
        await start(mcp)
    assert ("FRAMEHOLD_STRATEGY" in str(result.value)) is (settings is REPLAY)
    framehold.reentrant(book)
    await start(mcp)


async def test_what_a_lifespan_registers_is_looked_at_too() -> None:
    @asynccontextmanager
    async def lifespan(mcp: MCPServer[Any]) -> AsyncIterator[None]:
        mcp.add_tool(fresh(), name="late")
        yield

    mcp = MCPServer("m", lifespan=lifespan)
    attached_to(mcp, REPLAY).check()
    with pytest.raises(ConfigError, match='tool "late"'):
        await start(mcp)


def test_a_server_that_runs_on_trio_is_refused() -> None:
    entered: list[str] = []

    @asynccontextmanager
    async def lifespan(mcp: MCPServer[Any]) -> AsyncIterator[None]:
        entered.append("entered")
        yield

    server = framehold.attach(MCPServer("m", lifespan=lifespan), Settings(node_id="one")).server
    starting = server.lifespan(server).__aenter__()
    with pytest.raises(ConfigError, match="on asyncio only, and this program runs it on trio; nothing was started"):
        # No event loop of asyncio runs here, as on trio.
        starting.send(None)
    assert entered == []


@pytest.mark.parametrize("name", ["STRATEGY", "REHEARSE", "PICKLE", "MAX_VALUE", "MAX_JOURNAL"])
def test_a_wrong_setting_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"FRAMEHOLD_{name}", "0" if name.startswith("MAX") else "perhaps")
    with pytest.raises(ConfigError, match=f"FRAMEHOLD_{name} is wrong: .*; nothing was started"):
        load()


CALL = CallId("0" * 32)
HELD = f'F[1,"{CALL}",1,1,1,"{"0" * 32}","n1","boot","seal","hold"'


REPLAYED = f'R[1,"{CALL}",1,1,"code","seed",1.5,30.5]\n{{}}'


@pytest.mark.parametrize(
    ("state", "lifetime", "prefix"),
    [
        (HELD + "]", None, f"h1.{CALL}."),
        (HELD + ",60.0]", 60.0, f"h1.{CALL}."),
        (HELD + ",1200.5]", 1200.5, f"h1.{CALL}."),
        (REPLAYED.replace("30.5", "0"), None, "s1."),
        (REPLAYED, 30.5, "s1."),
        ("Aan author's own", None, "s1."),
        (f"A{HELD},60.0]", None, "s1."),
        (f'M[1,"{CALL}","{REPLAYED}"]', None, "s1."),
    ],
)
def test_a_token_lives_as_long_as_its_handler_says(state: str, lifetime: float | None, prefix: str) -> None:
    """Whatever the policy's own life is; all other claims stay, a lone surrogate as the SDK writes it. An author's
    state can't set it."""
    now = time.time()
    claims = {"v": 1, "iat": now, "exp": now + 600, "m": "tools/call", "t": "caf\u00e9 \ud800", "a": "x", "s": state}
    codec = PrefixCodec(AESGCMRequestStateCodec([b"k" * 32]), Clock(lambda: 9e9, lambda: 9e9, bytes))
    token = codec.seal(json.dumps(claims, separators=(",", ":")).encode())
    opened: dict[str, Any] = json.loads(codec.unseal(token))
    assert token.startswith(prefix)
    assert opened == {**claims, "exp": claims["exp"] if lifetime is None else now + lifetime}


@pytest.mark.parametrize("kind", [Settings, RouterSettings])
def test_each_time_has_an_upper_limit(kind: type[Settings | RouterSettings]) -> None:
    """The store keeps nothing for ever: where a time were endless, or nearly, no call could be written."""
    times = [name for name, field in kind.model_fields.items() if field.annotation is float]
    assert times
    for name in times:
        for value in ("inf", "1e16"):
            given: dict[str, Any] = {name: value}
            with pytest.raises(ConfigError, match=f"{name} is wrong"):
                kind(**given)


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"s":1}', b'"s"', b'{"s":"F[]"}', b'{"s":"F"}'])
def test_what_is_no_envelope_is_not_sealed(payload: bytes) -> None:
    with pytest.raises(InvalidRequestState):
        PrefixCodec(AESGCMRequestStateCodec([b"k" * 32]), Clock(lambda: 0.0, lambda: 0.0, bytes)).seal(payload)
