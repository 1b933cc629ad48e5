"""A node that is told to end leaves its fleet: what others may carry on is handed off at once, the rest has until a
deadline."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from framehold_core.ids import Boot
from framehold_core.lease import end_of
from framehold_core.value import replace
from framehold_fleet.identity.lease_seal import LeaseSeal
from framehold_fleet.identity.trust import Trust
from framehold_store import lease_codec
from tests.kit.client import Caller, Reply, accepted
from tests.kit.nodes import KEY, NodeProcess, entries, node
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer

pytestmark = [pytest.mark.anyio, pytest.mark.alone]

TARGET = "tests/node/draining_server.py"


class Pair:
    """Two nodes, of which the first is drained."""

    def __init__(self, nodes: list[NodeProcess], callers: list[Caller], folder: Path) -> None:
        self.first, self.second = nodes
        self.at_first, self.at_second = callers
        self.folder = folder

    @property
    def ledger(self) -> list[str]:
        return entries(self.folder / "entries")

    async def drained(self) -> None:
        """Wait until the first process has ended."""
        await until(lambda: not self.first.alive, "the node's end")

    async def drains(self) -> None:
        """SIGTERM; wait until the first node says that it takes no new call."""
        self.first.terminate()
        async with httpx2.AsyncClient() as http, asyncio.timeout(20):
            while (await http.get(f"{self.first.root}/readyz")).status_code == 200:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def two_nodes(redis: RedisServer, folder: Path, **of_first: str) -> AsyncIterator[Pair]:
    """Nodes a and b; `of_first` are settings of a alone."""
    common = {"store_url": redis.url, "namespace": folder.name, "route_headers": "1", "log_level": "info"}
    async with AsyncExitStack() as stack:
        nodes, callers = [], []
        for name, more in (("a", of_first), ("b", {})):
            (folder / name).mkdir()
            settings = {**common, "node_id": name, "drain_timeout": "15", "lease_ttl": "5", **more}
            nodes.append(await stack.enter_async_context(node(TARGET, folder / name, **settings)))
            callers.append(await stack.enter_async_context(Caller(nodes[-1].url)))
        yield Pair(nodes, callers, folder)


@pytest.fixture(autouse=True)
def kept_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))


@pytest.fixture
async def pair(redis: RedisServer, tmp_path: Path) -> AsyncIterator[Pair]:
    async with two_nodes(redis, tmp_path) as made:
        yield made


async def begun(caller: Caller, tool: str, name: str) -> Reply:
    reply = await caller.call(tool, arguments={"name": name})
    assert reply.result["resultType"] == "input_required"
    return reply


async def answered(caller: Caller, tool: str, name: str, reply: Reply, word: str = "yes") -> Reply:
    answers: dict[str, Any] = {key: accepted(word=word) for key in reply.asked}
    return await caller.retry(tool, reply.token, answers, arguments={"name": name})


async def test_a_node_stays_until_load_balancers_know_that_it_leaves(redis: RedisServer, tmp_path: Path) -> None:
    """It has nothing left to do; whoever comes meanwhile hears that it is not ready, or is passed on."""
    async with two_nodes(redis, tmp_path, drain_at_least="2") as pair, httpx2.AsyncClient() as http:
        assert pair.second.alive
        began = time.monotonic()
        await pair.drains()
        reply = await http.get(f"{pair.first.root}/readyz")
        assert reply.status_code == 503 and "drains" in reply.text
        assert (await http.get(f"{pair.first.root}/healthz")).status_code == 200
        # It proves to a load balancer that it is still the node, so that what runs here is not given up.
        found = await http.get(f"{pair.first.root}/readyz", params={"nonce": "A" * 64})
        proof = Trust([KEY.encode()]).plane_answer("A" * 64, "a")
        assert (found.status_code, found.headers["framehold-proof"]) == (503, proof and proof.decode())
        passed_on = await pair.at_first.call("plain", arguments={"name": "Ada"})
        assert (passed_on.text, passed_on.headers["framehold-node"]) == ("plain-Ada", "b")
        await pair.drained()
        assert 2 <= time.monotonic() - began < 10


async def test_what_was_passed_on_until_load_balancers_knew_is_not_cut_off(redis: RedisServer, tmp_path: Path) -> None:
    async with two_nodes(redis, tmp_path, drain_at_least="1") as pair:
        await pair.drains()
        passed = asyncio.create_task(pair.at_first.call("long", arguments={"name": "Max"}))
        await until(lambda: "long-Max" in pair.ledger, "the round's begin")
        ended = asyncio.create_task(pair.drained())
        # What load balancers are given, what a process takes to end that has nothing to wait for, and a second more.
        await asyncio.wait((ended, passed), timeout=4.5, return_when=asyncio.FIRST_COMPLETED)
        assert not ended.done() and not passed.done()
        (tmp_path / "Max").touch()
        reply = await passed
        assert reply.text == "Max is done" and reply.headers["framehold-node"] == "b"
        await ended


async def test_new_calls_and_handed_off_ones_are_passed_on(pair: Pair) -> None:
    """Whoever has not heard of the drain yet is served all the same, by the other node."""
    kept = await begun(pair.at_first, "unmarked", "Ed")
    reply = await begun(pair.at_first, "marked", "Flo")
    await pair.drains()
    new = await begun(pair.at_first, "marked", "Gus")
    assert new.headers["framehold-node"] == "b"
    assert (await pair.at_first.call("plain", arguments={"name": "Hal"})).text == "plain-Hal"
    second = await answered(pair.at_first, "marked", "Flo", reply)
    assert second.messages == ["Flo two?"] and second.headers["framehold-node"] == "b"
    assert (await pair.at_first.send("tools/list", {})).result["tools"]
    assert (await answered(pair.at_first, "unmarked", "Ed", kept)).text == "Ed yes"
    await pair.drained()


async def test_at_the_deadline_whoever_waits_is_told_and_may_try_again_elsewhere(
    redis: RedisServer, tmp_path: Path
) -> None:
    async with two_nodes(redis, tmp_path, drain_timeout="0.5") as pair:
        reply = await begun(pair.at_first, "slow", "Ivy")
        lost = await begun(pair.at_first, "unmarked", "Jo")
        running = asyncio.create_task(answered(pair.at_first, "slow", "Ivy", reply))
        await until(lambda: "running-Ivy" in pair.ledger, "the round's effect")
        pair.first.terminate()
        cut = await running
        assert (cut.status, cut.code) == (503, -32603) and cut.headers["retry-after"]
        assert "what the store has of this call; send the same request again" in cut.text
        await pair.drained()
        told = "1 parked calls that only this process can carry on are lost when it ends, 1 rounds that run are cut"
        assert told in pair.first.log()
        (tmp_path / "Ivy").touch()
        assert (await answered(pair.at_second, "slow", "Ivy", reply)).messages == ["Ivy two?"]
        result = await answered(pair.at_second, "unmarked", "Jo", lost)
        assert result.result["isError"] and "entered once" in result.text
        assert pair.ledger == ["entered-Jo", "running-Ivy"]


async def test_a_second_signal_waits_for_nothing(pair: Pair) -> None:
    reply = await begun(pair.at_first, "unmarked", "Kim")
    await pair.drains()
    assert pair.first.alive
    began = time.monotonic()
    pair.first.terminate()
    await pair.drained()
    assert time.monotonic() - began < 10
    result = await answered(pair.at_second, "unmarked", "Kim", reply)
    assert result.result["isError"] and "entered once" in result.text


async def test_whoever_waits_is_answered_and_the_process_ends_within_a_lease(
    redis: RedisServer, tmp_path: Path
) -> None:
    """Another process registers under the node's name: the first one may not go on (docs/protocol.md, rule 4). Nobody
    knows how far a first round came, and its client is told so. A handler that can't be cancelled keeps the
    process no longer than one lease's life."""
    settings = {"store_url": redis.url, "namespace": tmp_path.name, "node_id": "a", "lease_ttl": "3"}
    async with (
        node(TARGET, tmp_path, **settings) as lost,
        Caller(lost.url) as caller,
    ):
        calls = [asyncio.create_task(caller.call(tool, arguments={"name": "Al"})) for tool in ("long", "stubborn")]
        await until(lambda: len(entries(tmp_path / "entries")) == 2, "both rounds")
        with redis.client() as client:
            key = f"fh:{tmp_path.name}:node:a"
            await until(lambda: json.loads(client.get(key))[1] > 1, "a renewal: the other process comes later")
            lease = lease_codec.read("a", client.get(key))
            assert lease is not None
            other = replace(lease, boot=Boot("another"), expires=end_of(time.time(), 3.0))
            client.set(key, lease_codec.dump(LeaseSeal(Trust([KEY.encode()]), tmp_path.name).seal(other)))
        for result in await asyncio.gather(*calls):
            assert (result.status, result.code) == (503, -32603) and "is not known" in result.text
        reply = time.monotonic()
        await until(lambda: not lost.alive, "the process's end")
        # A second for a busy machine.
        assert time.monotonic() - reply < 3 + 1
        assert "another process is registered as node 'a'" in lost.log()
