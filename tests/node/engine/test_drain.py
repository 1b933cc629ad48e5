"""A node that is told to end leaves its fleet: what others may carry on is handed off at once, the rest has until a
deadline."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from framehold_fleet.identity.trust import Trust
from tests.node.nodes import KEY, NodeProcess, entries, node
from tests.processes import until
from tests.store.server import RedisServer
from tests.wire import Caller, Reply, accepted

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
    """Both nodes note in one file what runs."""
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
    """The node had nothing left of its own long before. It ends when the other node has answered, and no sooner."""
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


async def test_a_call_that_may_be_entered_again_goes_on_elsewhere_at_once(pair: Pair) -> None:
    """Within 200 ms, with a lease that would last for 5 s: nobody waits for it."""
    reply = await begun(pair.at_first, "marked", "Ada")
    pair.first.terminate()
    await pair.drained()
    began = time.monotonic()
    second = await answered(pair.at_second, "marked", "Ada", reply)
    took = time.monotonic() - began
    assert second.messages == ["Ada two?"] and took < 0.2
    assert (await answered(pair.at_second, "marked", "Ada", second)).text == "Ada yes yes"
    assert pair.ledger == ["begin-Ada", "middle-Ada"]
    assert "1 calls handed off" in pair.first.log()


async def test_a_call_that_may_not_is_kept_and_answered_here_until_the_deadline(pair: Pair) -> None:
    """Through whichever node it comes; then the process ends, long before the deadline."""
    reply = await begun(pair.at_first, "unmarked", "Bo")
    other = await begun(pair.at_first, "unmarked", "Cy")
    await pair.drains()
    assert (await answered(pair.at_second, "unmarked", "Bo", reply)).text == "Bo yes"
    assert pair.first.alive
    assert (await answered(pair.at_first, "unmarked", "Cy", other)).text == "Cy yes"
    await pair.drained()
    assert pair.ledger == ["entered-Bo", "entered-Cy"]


async def test_a_round_that_runs_comes_to_its_questions_and_is_then_handed_off(pair: Pair) -> None:
    """Its client hears them from the draining node; the next round is the other node's."""
    reply = await begun(pair.at_first, "slow", "Di")
    running = asyncio.create_task(answered(pair.at_first, "slow", "Di", reply))
    await until(lambda: "running-Di" in pair.ledger, "the round's effect")
    await pair.drains()
    (pair.folder / "Di").touch()
    second = await running
    assert second.messages == ["Di two?"]
    await pair.drained()
    assert (await answered(pair.at_second, "slow", "Di", second)).text == "Di yes yes"
    assert pair.ledger == ["running-Di"]


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
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JSON-RPC error with 503 and Retry-After; the recorded effect is not run again."""
    monkeypatch.setenv("ENTRIES", str(tmp_path / "entries"))
    common = {"store_url": redis.url, "namespace": tmp_path.name, "log_level": "info", "drain_timeout": "0.5"}
    (tmp_path / "b").mkdir()
    async with (
        node(TARGET, tmp_path, node_id="a", **common) as first,
        node(TARGET, tmp_path / "b", node_id="b", **common) as second,
        Caller(first.url) as caller,
        Caller(second.url) as other,
    ):
        reply = await begun(caller, "slow", "Ivy")
        lost = await begun(caller, "unmarked", "Jo")
        running = asyncio.create_task(answered(caller, "slow", "Ivy", reply))
        await until(lambda: "running-Ivy" in entries(tmp_path / "entries"), "the round's effect")
        first.terminate()
        cut = await running
        assert (cut.status, cut.code) == (503, -32603) and cut.headers["retry-after"]
        assert "what the store has of this call; send the same request again" in cut.text
        await until(lambda: not first.alive, "the node's end")
        said = "1 parked calls that only this process can carry on are lost when it ends, 1 rounds that run are cut"
        assert said in first.log()
        (tmp_path / "Ivy").touch()
        again = await answered(other, "slow", "Ivy", reply)
        assert again.messages == ["Ivy two?"]
        result = await answered(other, "unmarked", "Jo", lost)
        assert result.result["isError"] and "entered once" in result.text
        assert entries(tmp_path / "entries") == ["entered-Jo", "running-Ivy"]


async def test_a_second_signal_says_what_it_cuts_off(pair: Pair) -> None:
    """A first round has no token: its client is told that nobody knows how far it came. Here, and through the other
    node, which waits for this one's response."""
    calls = [asyncio.create_task(pair.at_first.call("long", arguments={"name": "Lu"}))]
    reply = await begun(pair.at_first, "slow", "Mo")
    calls += [asyncio.create_task(answered(at, "slow", "Mo", reply)) for at in (pair.at_first, pair.at_second)]
    await until(lambda: {"long-Lu", "running-Mo"} <= set(pair.ledger), "both rounds")
    await pair.drains()
    pair.first.terminate()
    long, *slow = await asyncio.gather(*calls)
    await pair.drained()
    assert (long.status, long.code) == (503, -32603) and "is not known" in long.text
    assert (slow[0].status, slow[0].code) == (503, -32603) and "answered as once" in slow[0].text
    # The other node reads the record again, and carries the call on.
    (pair.folder / "Mo").touch()
    assert slow[1].status == 503 or slow[1].messages == ["Mo two?"]


async def test_a_second_signal_waits_for_nothing(pair: Pair) -> None:
    """Whoever is in a hurry says so twice."""
    reply = await begun(pair.at_first, "unmarked", "Kim")
    await pair.drains()
    assert pair.first.alive
    began = time.monotonic()
    pair.first.terminate()
    await pair.drained()
    assert time.monotonic() - began < 10
    result = await answered(pair.at_second, "unmarked", "Kim", reply)
    assert result.result["isError"] and "entered once" in result.text


async def test_a_round_that_was_passed_on_is_not_cut_off(pair: Pair) -> None:
    """It runs elsewhere, and its response goes through the draining node: that one has nothing left of its own, and
    waits for it all the same. It is a first round, so nobody could come back for it."""
    kept = await begun(pair.at_first, "unmarked", "Lou")
    await pair.drains()
    passed = asyncio.create_task(pair.at_first.call("long", arguments={"name": "Max"}))
    await until(lambda: "long-Max" in pair.ledger, "the round's begin")
    assert (await answered(pair.at_first, "unmarked", "Lou", kept)).text == "Lou yes"
    # What a process takes to end that has nothing to wait for, and a second more.
    ended = asyncio.create_task(pair.drained())
    await asyncio.wait((ended,), timeout=3.5)
    assert not ended.done()
    (pair.folder / "Max").touch()
    reply = await passed
    assert reply.text == "Max is done" and reply.headers["framehold-node"] == "b"
    await ended
