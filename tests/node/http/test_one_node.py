"""The main job on real parts: a node process, a real Redis, the official client, real HTTP."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import TextContent

import framehold
from framehold.config import Settings
from tests.kit.answering import echo, expected
from tests.kit.client import Caller, accepted
from tests.kit.nodes import KEY, NodeProcess, entries, node, served
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Word

pytestmark = pytest.mark.anyio

TARGET = "tests/node/three_rounds.py"
CALLS = 200
CLIENTS = 20
TTL = 60
"""The lease of the node in seconds: longer than any pause of a busy machine."""


@pytest.fixture
async def one(redis: RedisServer, tmp_path: Path) -> AsyncIterator[NodeProcess]:
    stored = {"store_url": redis.url, "namespace": tmp_path.name, "node_id": "one"}
    async with node(TARGET, tmp_path, **stored, lease_ttl=f"{TTL}", log_level="info") as child:
        yield child


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
