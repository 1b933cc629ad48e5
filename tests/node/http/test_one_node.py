"""The main job on real parts: a node process, a real Redis, the official client, real HTTP."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import TextContent
from pydantic import BaseModel

import framehold
from framehold.config import Settings
from tests.node.guest import echo, expected
from tests.node.nodes import KEY, NodeProcess, entries, node, served
from tests.processes import DEADLINE, ROOT
from tests.store.server import RedisServer
from tests.wire import Caller, Reply, accepted

pytestmark = pytest.mark.anyio

TARGET = "tests/node/three_rounds.py"
CALLS = 200
CLIENTS = 20
LOST = (
    "This call was lost. Its handler was entered once, stopped at an unknown point after round {} of its "
    "questions, and may still be running; it was not entered again. Start a new call if that is safe."
)


TTL = 60
"""The lease of a node that lives, in seconds: longer than any pause of a busy machine."""
SHORT = 1.5
"""The lease of a node that dies: it is waited for."""


def settings(redis: RedisServer, folder: Path, ttl: float = TTL) -> dict[str, str]:
    """A node with a namespace of its own."""
    stored = {"store_url": redis.url, "namespace": folder.name, "node_id": "one"}
    return {**stored, "lease_ttl": f"{ttl:g}", "log_level": "info"}


@pytest.fixture
async def one(redis: RedisServer, tmp_path: Path) -> AsyncIterator[NodeProcess]:
    async with node(TARGET, tmp_path, **settings(redis, tmp_path)) as child:
        yield child


@asynccontextmanager
async def killed(
    redis: RedisServer, folder: Path, meanwhile: Callable[[Caller], Awaitable[None]]
) -> AsyncIterator[Caller]:
    """A client of a second life of node `one`, whose first life was killed after what it did `meanwhile`."""
    async with node(TARGET, folder, **settings(redis, folder, SHORT)) as first:
        async with Caller(first.url) as caller:
            await meanwhile(caller)
        first.kill()
    async with node(TARGET, folder, **settings(redis, folder)) as second, Caller(second.url) as caller:
        yield caller


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which handlers note that they were entered."""
    path = tmp_path / "entries"
    monkeypatch.setenv("ENTRIES", str(path))
    return path


def everything(redis: RedisServer) -> dict[bytes, Any]:
    """Each key of the store with all it holds."""
    found: dict[bytes, Any] = {}
    read = {b"hash": "hgetall", b"string": "get"}
    with redis.client() as client:
        for key in client.scan_iter(count=1000):
            kind = client.type(key)
            if kind == b"none":
                # It expired meanwhile.
                continue
            if kind == b"list":
                found[key] = client.lrange(key, 0, -1)
            elif kind == b"zset":
                found[key] = client.zrange(key, 0, -1, withscores=True)
            elif kind == b"stream":
                found[key] = client.xrange(key)
            else:
                found[key] = getattr(client, read[kind])(key)
    return found


async def test_200_concurrent_calls_of_three_rounds_by_the_official_client(one: NodeProcess, noted: Path) -> None:
    """Every handler is entered once, every result is that of its own answers, and nobody sees an error."""
    names = [f"guest{number}" for number in range(CALLS)]
    text: dict[str, str] = {}

    async def talk(mine: list[str]) -> None:
        async with Client(one.url, elicitation_callback=echo) as client:

            async def call(name: str) -> None:
                result = await client.call_tool("three", {"name": name})
                (block,) = result.content
                assert not result.is_error and isinstance(block, TextContent), result
                text[name] = block.text

            await asyncio.gather(*map(call, mine))

    await asyncio.gather(*(talk(names[start::CLIENTS]) for start in range(CLIENTS)))
    assert text == {name: expected(name) for name in names}
    assert Counter(entries(noted)) == dict.fromkeys(names, 1)
    log = one.log()
    assert "Traceback" not in log and "WARNING" not in log and "ERROR" not in log, log


async def test_while_parked_record_journal_and_node_lease_stand_in_redis(
    one: NodeProcess, redis: RedisServer, tmp_path: Path
) -> None:
    """They have the fields and lives that the protocol gives them, and tell nobody what was asked or answered."""
    async with Caller(one.url) as caller:
        asked = await caller.call("three", arguments={"name": "quincunx"})
        asked = await caller.retry("three", asked.token, asked.accept(word="zeugmatic"), arguments={"name": "quincunx"})
    call = asked.token.split(".")[1]
    record_key, journal_key = f"fh:{tmp_path.name}:{{{call}}}:r", f"fh:{tmp_path.name}:{{{call}}}:j"
    lease_key = f"fh:{tmp_path.name}:node:one"
    with redis.client() as client:
        record: dict[bytes, bytes] = client.hgetall(record_key)
        lives = [client.ttl(key) for key in (record_key, journal_key)]
        assert client.llen(journal_key) == 3
        lease = client.get(lease_key)
        assert 0 < client.pttl(lease_key) <= TTL * 1000
    fixed = {"state": "open", "owner": "one", "epoch": "1", "round": "2", "n": "3", "attempts": "0", "reentrant": "0"}
    named = {"method": "tools/call", "target": "three", "tool": "three", "strategy": "hold"}
    assert {name.encode(): value.encode() for name, value in {**fixed, **named}.items()}.items() <= record.items()
    assert record[b"inc"] in lease and record[b"boot"] in lease
    assert {b"a:1", b"jh", b"args", b"created", b"expires"} <= record.keys()
    # Token 600 s, longest round 300 s, skew 60 s.
    assert all(950 <= life <= 960 for life in lives)
    opened = [b64decode(json.loads(entry)[-1]) for entry in everything(redis)[journal_key.encode()]]
    assert all(opened), "questions keep how they begin, answers what they are"
    stored = repr(everything(redis)) + repr(opened)
    assert not [secret for secret in ("quincunx", "zeugmatic", "secret question") if secret in stored]


async def test_after_the_end_only_a_sealed_tombstone_is_left(
    one: NodeProcess, redis: RedisServer, tmp_path: Path
) -> None:
    """The journal goes, the outcome stays sealed, and a late duplicate gets it from there."""
    async with Caller(one.url) as caller:
        asked = await caller.call("one", arguments={"name": "palimpsest"})
        answers = asked.accept(word="chiaroscuro")
        done = await caller.retry("one", asked.token, answers, arguments={"name": "palimpsest"})
        again = await caller.retry("one", asked.token, answers, arguments={"name": "palimpsest"})
    assert done.text == again.text == "palimpsest: chiaroscuro"
    call = asked.token.split(".")[1]
    with redis.client() as client:
        record = client.hgetall(f"fh:{tmp_path.name}:{{{call}}}:r")
        assert not client.exists(f"fh:{tmp_path.name}:{{{call}}}:j")
    assert (record[b"state"], record[b"out_round"]) == (b"done", b"1")
    stored = repr(everything(redis))
    assert not [secret for secret in ("palimpsest", "chiaroscuro") if secret in stored]


async def test_after_a_kill_the_loss_is_told_and_no_handler_is_entered_again(
    redis: RedisServer, tmp_path: Path, noted: Path
) -> None:
    """The restarted node, under the same name, owns up: entered once, stopped after round r, not entered again."""
    asked: list[tuple[Reply, str, int]] = []

    async def two_calls(caller: Caller) -> None:
        first = await caller.call("three", arguments={"name": "early"})
        other = await caller.call("three", arguments={"name": "later"})
        second = await caller.retry("three", other.token, other.accept(word="x"), arguments={"name": "later"})
        asked.extend([(first, "early", 1), (second, "later", 2), (second, "later", 2)])

    async with killed(redis, tmp_path, two_calls) as caller:
        for reply, name, question in asked:
            answers = reply.accept(word="y")
            result = (await caller.retry("three", reply.token, answers, arguments={"name": name})).result
            assert (result["isError"], result["_meta"]["framehold/reason"]) == (True, "lost")
            assert result["content"] == [{"type": "text", "text": LOST.format(question)}]
        assert (await caller.call("one", arguments={"name": "fresh"})).messages == ["fresh?"]
    assert entries(noted) == ["early", "later", "fresh"]


async def test_a_second_node_of_the_same_name(one: NodeProcess, redis: RedisServer, tmp_path: Path) -> None:
    """It is refused in one line that says what to do, once the first has proved that it lives; the first serves on."""
    named = {**settings(redis, tmp_path, SHORT), "keys": KEY}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "framehold", "node", TARGET, "--port", "0"),
        cwd=ROOT,
        env={**os.environ, **{f"FRAMEHOLD_{name.upper()}": value for name, value in named.items()}},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, text = await asyncio.wait_for(child.communicate(), DEADLINE)
    assert child.returncode == 2
    assert text.decode().splitlines()[-1].startswith("framehold: another live process is registered as node 'one'")
    async with Caller(one.url) as caller:
        assert (await caller.call("never", arguments={"name": "n"})).text == "n: unasked"


async def test_a_restarted_node_waits_out_the_lease_of_its_former_life(redis: RedisServer, tmp_path: Path) -> None:
    """A killed process leaves its lease behind: its successor of the same name waits for it to run out, and serves."""

    async def nothing(caller: Caller) -> None:
        pass

    async with killed(redis, tmp_path, nothing) as caller:
        assert "Traceback" not in (tmp_path / "node.log").read_text()
        assert (await caller.call("one", arguments={"name": "again"})).messages == ["again?"]


class Word(BaseModel):
    word: str


@pytest.mark.parametrize("kind", ["memory", "redis"])
async def test_what_a_call_costs_the_store(kind: str, redis: RedisServer) -> None:
    """A tool that never asks writes nothing; each round writes once, whatever it learned; nothing is ever read."""
    mcp = MCPServer("costs")

    @mcp.tool()
    async def silent() -> str:
        """Ask nothing."""
        return "silence"

    @mcp.tool()
    async def rounds(count: int, ctx: Context) -> str:
        """Ask two things in each of some rounds."""
        for number in range(count):
            await asyncio.gather(ctx.elicit(f"left {number}?", Word), ctx.elicit(f"right {number}?", Word))
        return "done"

    url = redis.url if kind == "redis" else None
    app = framehold.asgi(mcp, Settings(store_url=url, namespace=f"costs-{kind}", node_id="c", keys=(KEY,)))
    store = app.attached.runtime.store

    def written() -> dict[str, int]:
        return {
            name: count for name, count in store.request_counts.items() if name not in ("register", "renew", "leave")
        }

    async with served(app) as at, Caller(at) as caller:
        await caller.call("silent")
        assert (await caller.call("rounds", arguments={"count": 0})).text == "done"
        assert written() == {}
        for count, commits in ((1, 1), (2, 3)):
            reply = await caller.call("rounds", arguments={"count": count})
            for _ in range(count):
                answers = {key: accepted(word="w") for key in reply.asked}
                reply = await caller.retry("rounds", reply.token, answers, arguments={"count": count})
            assert reply.text == "done"
            assert written() == {"commit": commits, "finish": count}
