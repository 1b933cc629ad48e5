"""Records whose heads somebody has altered who writes the store and lacks the keys: which code, mark, tool and user
belong together is sealed (docs/protocol.md, rule 22). No handler is entered, and the client hears that its call is
lost."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import framehold
from framehold.config import Settings
from framehold.engine.runtime import Runtime
from framehold_core.journal import canonical, digest
from framehold_store.seal import Sealer
from tests.kit.client import Caller, Reply
from tests.kit.nodes import KEY, served
from tests.kit.redis_server import RedisServer
from tests.node.code.releases import release

pytestmark = pytest.mark.anyio
MARKS = "SEALED_HEADS_MARKS"
LOST = "This call was lost: the store of this node has no trace of it"
UNREADABLE = "The call can't be continued here"

HEAD = """\
import os
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from pydantic import BaseModel
import framehold
mcp = MCPServer("shop")
class Word(BaseModel):
    word: str
async def asked(release, tool, of, ctx):
    with open(os.environ["SEALED_HEADS_MARKS"], "a") as file:
        file.write(f"{of}: {tool} of release {release}\\n")
    await ctx.elicit("Go on?", Word)
    return f"{tool} of release {release}"
@mcp.tool()
@framehold.reentrant
async def preview(of: str, ctx: Context) -> str:
    return await asked(0, "preview", of, ctx)
@mcp.tool()
@framehold.reentrant
async def transfer(of: str, ctx: Context) -> str:
    return await asked(0, "transfer", of, ctx)
"""
ONE = (
    HEAD
    + """
@mcp.tool()
@framehold.reentrant
async def pay(of: str, ctx: Context) -> str:
    return await asked(1, "pay", of, ctx)
@mcp.tool()
@framehold.reentrant
async def post(of: str, ctx: Context) -> str:
    return await asked(1, "post", of, ctx)
"""
)
TWO = ONE.replace("asked(1", "asked(2").replace("@framehold.reentrant\nasync def post", "async def post")
GUARDED = """\
import os
from fastmcp import Context, FastMCP
from pydantic import BaseModel
import framehold
mcp = FastMCP("shop")
class Word(BaseModel):
    word: str
async def asked(tool, of, ctx):
    with open(os.environ["SEALED_HEADS_MARKS"], "a") as file:
        file.write(f"{of}: {tool}\\n")
    await ctx.elicit("Go on?", Word)
    return tool
@mcp.tool
@framehold.reentrant
async def shown(of: str, ctx: Context) -> str:
    return await asked("shown", of, ctx)
@mcp.tool(auth=lambda context: "SEALED_HEADS_ADMIN" in os.environ)
@framehold.reentrant
async def reset(of: str, ctx: Context) -> str:
    return await asked("reset", of, ctx)
"""


class Case:
    """A call whose record is altered."""

    def __init__(self, name: str, tool: str, alter: Alter) -> None:
        self.name, self.tool, self.alter = name, tool, alter
        self.asked: Reply


class Store:
    """What the writer of the store sees and does: the codes of tools, and the records."""

    def __init__(self, redis: RedisServer, namespace: str) -> None:
        self._redis, self._namespace = redis, namespace
        self.codes: dict[str, tuple[str, bytes]] = {}

    def client(self) -> Any:
        return self._redis.client()

    def keys(self, reply: Reply) -> tuple[str, str]:
        tagged = f"fh:{self._namespace}:{{{reply.token.split('.')[1]}}}"
        return f"{tagged}:r", f"{tagged}:j"

    def record(self, reply: Reply) -> dict[str, str]:
        with self.client() as client:
            found = client.hgetall(self.keys(reply)[0])
        return {name.decode(): value.decode(errors="replace") for name, value in found.items()}

    def learn(self, tool: str, reply: Reply) -> None:
        """Copy the code of a tool, by a call of it that waits."""
        digest = self.record(reply)["code"]
        with self.client() as client:
            self.codes[tool] = digest, client.get(f"fh:{self._namespace}:code:{digest}")

    def write(self, reply: Reply, **fields: str) -> None:
        with self.client() as client:
            client.hset(self.keys(reply)[0], mapping=fields)
            for digest, sealed in self.codes.values():
                client.set(f"fh:{self._namespace}:code:{digest}", sealed, ex=600)

    def exchange(self, one: Reply, other: Reply) -> None:
        """Give each of two calls the record and the journal of the other."""
        with self.client() as client:
            for here, there in zip(self.keys(one), self.keys(other), strict=True):
                client.rename(here, "apart"), client.rename(there, here), client.rename("apart", there)


Alter = Callable[[Store, Case], dict[str, str]]


def code_of(tool: str) -> Alter:
    """The call is to run the code of this tool, as the first release has it."""
    return lambda store, case: {"code": store.codes[tool][0], "reentrant": "1", "state": "released"}


def field(name: str, value: str) -> Alter:
    return lambda store, case: {name: value}


FORGED: dict[str, tuple[str, Alter]] = {
    "a new call runs the code of the release before": ("pay", code_of("pay")),
    "a call runs the code of another tool": ("preview", code_of("transfer")),
    "an unmarked handler is entered by marked code": ("post", code_of("post")),
    "an unmarked handler is entered": ("post", field("reentrant", "1")),
    "a call of another tool": ("pay", field("tool", "transfer")),
    "a call of another user": ("pay", field("principal", "0" * 32)),
    "no code": ("pay", field("code", "")),
    "no seal": ("pay", field("seal", "")),
    "a seal of no text": ("pay", field("seal", "\u00fc")),
}
"""What each other field may be made to say is tried in test_flipped_fields."""


class Node(Caller):
    """The client of a node, with its runtime."""

    runtime: Runtime


class Shop:
    """Nodes of two releases over one Redis, and the calls."""

    def __init__(self, redis: RedisServer, folder: Path) -> None:
        self._redis, self._folder = redis, folder
        self.store = Store(redis, folder.name)
        self.marks = folder / "marks"
        self.marks.touch()
        os.environ[MARKS] = str(self.marks)

    def entered(self) -> list[str]:
        """Which handlers were entered since the last question."""
        lines = self.marks.read_text().splitlines()
        self.marks.write_text("")
        return lines

    @asynccontextmanager
    async def node(self, name: str, text: str, *keys: str) -> AsyncIterator[Node]:
        usual: dict[str, Any] = {"store_url": self._redis.url, "namespace": self._folder.name, "keys": keys or (KEY,)}
        async with AsyncExitStack() as stack:
            with release(self._folder / name, text) as module:
                app = framehold.asgi(module.mcp, Settings(**usual, node_id=name, lease_ttl=1.0))
                url = await stack.enter_async_context(served(app))
            caller = await stack.enter_async_context(Node(url))
            caller.runtime = app.attached.runtime
            yield caller

    async def begin(self, caller: Caller, cases: list[Case]) -> None:
        """Begin the calls, which wait then."""
        for case in cases:
            case.asked = await caller.call(case.tool, arguments={"of": case.name})
            assert case.asked.messages == ["Go on?"], case.asked.message

    async def answered(self, caller: Caller, case: Case) -> Reply:
        """The end of a call. It is asked for again until it is decided."""
        async with asyncio.timeout(20):
            while True:
                asked, arguments = case.asked, {"of": case.name}
                reply = await caller.retry(case.tool, asked.token, asked.accept(word="w"), arguments=arguments)
                if reply.status != 503:
                    return reply
                await asyncio.sleep(0.05)


@pytest.fixture
def shop(redis: RedisServer, tmp_path: Path) -> Shop:
    return Shop(redis, tmp_path)


async def waiting(shop: Shop, text: str, *tools: str) -> list[Case]:
    """A call of each tool, whose node has ended, and the codes of these tools."""
    made = [Case(tool, tool, field("seal", "")) for tool in tools]
    async with shop.node("a", text) as caller:
        await shop.begin(caller, made)
        for case in made:
            shop.store.learn(case.tool, case.asked)
    shop.entered()
    return made


async def test_a_forged_head_enters_no_handler(shop: Shop) -> None:
    cases = [Case(name, *what) for name, what in FORGED.items()]
    async with shop.node("a", ONE) as caller:
        for tool in ("pay", "transfer", "post"):
            shop.store.learn(tool, await caller.call(tool, arguments={"of": "nobody"}))
    async with shop.node("b", TWO) as caller:
        await shop.begin(caller, cases)
    shop.entered()
    async with shop.node("c", TWO) as caller:
        for case in cases:
            shop.store.write(case.asked, **case.alter(shop.store, case))
        replies = await asyncio.gather(*(shop.answered(caller, case) for case in cases))
    assert shop.entered() == []
    for case, reply in zip(cases, replies, strict=True):
        assert reply.text.startswith((LOST, UNREADABLE)), (case.name, reply.message)


async def test_a_user_does_not_run_a_guarded_tool_by_a_call_of_another(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FastMCP checks the rights for the tool that the request names."""
    monkeypatch.setenv("SEALED_HEADS_ADMIN", "1")
    _, shown = await waiting(shop, GUARDED, "reset", "shown")
    monkeypatch.delenv("SEALED_HEADS_ADMIN")
    shop.store.write(shown.asked, code=shop.store.codes["reset"][0])
    async with shop.node("b", GUARDED) as caller:
        assert (await caller.call("reset", arguments={"of": "b"})).text == "Unknown tool: 'reset'"
        assert (await shop.answered(caller, shown)).text.startswith(LOST)
    assert shop.entered() == []


async def test_a_right_that_is_gone_is_gone_for_kept_code_too(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a tool that its user may no longer use does not go on with the code that it began with."""
    monkeypatch.setenv("SEALED_HEADS_ADMIN", "1")
    (reset,) = await waiting(shop, GUARDED, "reset")
    monkeypatch.delenv("SEALED_HEADS_ADMIN")
    async with shop.node("b", GUARDED.replace("return tool", "return 'new'")) as caller:
        assert (await shop.answered(caller, reset)).text == "Unknown tool: 'reset'"
        assert shop.entered() == []
        monkeypatch.setenv("SEALED_HEADS_ADMIN", "1")
        assert (await shop.answered(caller, reset)).text == "reset"


async def test_code_serves_the_handler_that_it_was_kept_for(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a record that names another's code passed for whole: the present code is tried."""
    preview, _ = await waiting(shop, ONE, "preview", "transfer")
    shop.store.write(preview.asked, code=shop.store.codes["transfer"][0])
    monkeypatch.setattr(Sealer, "is_sealed", lambda *_: True)
    async with shop.node("b", ONE) as caller:
        assert (await shop.answered(caller, preview)).text == "preview of release 0"


async def test_calls_whose_records_were_exchanged(shop: Shop) -> None:
    one, other = await waiting(shop, ONE, "pay", "transfer")
    shop.store.exchange(one.asked, other.asked)
    async with shop.node("b", ONE) as caller:
        replies = await asyncio.gather(*(shop.answered(caller, case) for case in (one, other)))
        assert all(reply.text.startswith(LOST) for reply in replies) and shop.entered() == []
        shop.store.exchange(one.asked, other.asked)
        assert (await shop.answered(caller, one)).text == "pay of release 1"


async def test_a_head_that_is_altered_before_the_claim(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    """It was whole when it was read."""
    pay, _ = await waiting(shop, ONE, "pay", "transfer")
    before = shop.store.record(pay.asked)["code"]
    async with shop.node("b", ONE) as caller:
        store: Any = caller.runtime.store
        nodes = store.nodes

        async def altered(*named: Any) -> Any:
            shop.store.write(pay.asked, code=shop.store.codes["transfer"][0])
            return await nodes(*named)

        store.nodes = altered
        reply = await shop.answered(caller, pay)
        assert reply.text.startswith(UNREADABLE) and shop.entered() == []
        assert "the head of its record was altered when it was claimed" in caplog.text
        store.nodes = nodes
        shop.store.write(pay.asked, code=before)
        assert (await shop.answered(caller, pay)).text == "pay of release 1"


async def test_a_heal_writes_the_head_that_the_call_began_with(shop: Shop) -> None:
    """Also where its code is gone, and the present code is entered in its place."""
    (pay,) = await waiting(shop, ONE, "pay")
    record, journal = shop.store.keys(pay.asked)
    before = shop.store.record(pay.asked)
    with shop.store.client() as client:
        client.delete(f"fh:{record.split(':')[1]}:code:{before['code']}")
    async with shop.node("b", ONE.replace('"pay"', '"pay, once more,"')) as caller:
        pay.asked = await caller.retry("pay", pay.asked.token, {}, arguments={"of": "pay"})
        assert pay.asked.messages == ["Go on?"] and shop.entered() == ["pay: pay, once more, of release 1"]
        with shop.store.client() as client:
            client.delete(record, journal)
        assert (await shop.answered(caller, pay)).text == "pay, once more, of release 1"
    after = shop.store.record(pay.asked)
    sealed = ("tool", "method", "target", "code", "reentrant", "args", "principal", "strategy", "seal")
    assert {name: after[name] for name in sealed} == {name: before[name] for name in sealed}


async def test_what_a_reader_of_the_store_could_try_is_named_under_a_key(shop: Shop) -> None:
    """Arguments and answers; the same answers are the same for a node with a newer key, too."""
    twice = ONE.replace('"Go on?", Word)', '"Go on?", Word)\n    await ctx.elicit("Really?", Word)')
    async with shop.node("a", twice) as caller:
        first = await caller.call("pay", arguments={"of": "a"})
        second = await caller.retry("pay", first.token, first.accept(word="w"), arguments={"of": "a"})
    assert second.messages == ["Really?"]
    record, (key, given) = shop.store.record(second), next(iter(first.accept(word="w").items()))
    plain = digest(canonical({"of": "a"})), digest(f"{len(key)}:{key}={digest(canonical(given))}".encode())
    assert record["args"] != plain[0] and json.loads(record["a:1"])[0] != plain[1]
    async with shop.node("b", twice, "k" * 32, KEY) as caller:
        again = await caller.retry("pay", first.token, first.accept(word="w"), arguments={"of": "a"})
        assert again.messages == ["Really?"]
        other = await caller.retry("pay", first.token, first.accept(word="x"), arguments={"of": "a"})
        assert "was already answered otherwise" in other.text
