"""Each metric of a node moves in a scenario that says by how much, read as Prometheus reads it."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp.server.mcpserver import Context

import framehold
from framehold.config import Settings
from framehold.engine import eviction, memory
from framehold.engine.doors.pauses import Pauses
from framehold.engine.orphan_scan import OrphanCounts
from framehold.engine.runtime import Runtime
from framehold.telemetry.prometheus import STATES
from framehold_core import events as ev
from framehold_core.errors import StoreUnavailable
from framehold_core.value import replace
from tests.kit.client import Reply
from tests.kit.metrics import MOVED, Scrape, moves, scraped
from tests.kit.nodes import KEY, served
from tests.kit.operators import TOKEN
from tests.kit.processes import until
from tests.kit.redis_server import RedisServer
from tests.kit.serving import Served, Word, said, server_of, serving

pytestmark = pytest.mark.anyio

COMMIT = {
    'lease_ops_total{op="commit",result="ok"}': 1,
    'store_op_duration_seconds_count{op="commit"}': 1,
    "journal_append_duration_seconds_count": 1,
    "journal_bytes_count": 1,
}
FINISH = {'lease_ops_total{op="finish",result="ok"}': 1, 'store_op_duration_seconds_count{op="finish"}': 1}


def rounds(tool: str, **ends: int) -> dict[str, float]:
    """So many rounds of a tool with these ends, all of which were replies."""
    counted = {f'rounds_total{{outcome="{end}",tool="{tool}"}}': count for end, count in ends.items()}
    return {**counted, f'round_duration_seconds_count{{tool="{tool}"}}': sum(ends.values())}


def ended(tool: str) -> dict[str, float]:
    return {f'rounds_per_call_count{{tool="{tool}"}}': 1}


def resumed(tool: str) -> dict[str, float]:
    return {f'park_duration_seconds_count{{tool="{tool}"}}': 1}


def asked(op: str, result: str = "ok", count: int = 1) -> dict[str, float]:
    return {
        f'lease_ops_total{{op="{op}",result="{result}"}}': count,
        f'store_op_duration_seconds_count{{op="{op}"}}': count,
    }


def replayed(tool: str) -> dict[str, float]:
    return {f'replay_total{{tool="{tool}"}}': 1, f'replay_duration_seconds_count{{tool="{tool}"}}': 1}


FAILED_OVER = {
    f'failover_duration_seconds_count{{phase="{phase}"}}': 1 for phase in ("claim", "replay", "resume", "total")
}


async def one(ctx: Context) -> str:
    return said(await ctx.elicit("Which word?", Word))


class Hold:
    """What a handler waits for."""

    def __init__(self) -> None:
        self.entered, self.go = asyncio.Event(), asyncio.Event()

    async def two(self, ctx: Context) -> str:
        """Two questions; between them it waits to be let go."""
        first = said(await ctx.elicit("First?", Word))
        self.entered.set()
        await self.go.wait()
        return f"{first} {said(await ctx.elicit('Second?', Word))}"


async def answer(client: Served, tool: str, reply: Reply, word: str = "w") -> Reply:
    return await client.retry(tool, reply.token, reply.accept(word=word))


@asynccontextmanager
async def sharing(redis: RedisServer, namespace: str, name: str, *tools: Any, **more: Any) -> AsyncIterator[Served]:
    """A node of a fleet, in this process."""
    settings = {"store_url": redis.url, "namespace": namespace, "node_id": name, "keys": (KEY,), "lease_ttl": 5.0}
    app = framehold.asgi(server_of("stage", *tools), Settings(**{**settings, **more}))
    async with served(app) as url, Served(url) as client:
        client.runtime = app.attached.runtime
        yield client


@asynccontextmanager
async def two_nodes(redis: RedisServer, namespace: str, *tools: Any, **more: Any) -> AsyncIterator[list[Served]]:
    """Nodes a and b of one fleet. The last tool is that of b."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(sharing(redis, namespace, name, tool, **more))
            for name, tool in (("a", tools[0]), ("b", tools[-1]))
        ]


async def dies(runtime: Runtime) -> None:
    """As far as others can see: it beats no more, and its lease has run out. What it does it goes on with."""
    heart: Any = runtime.heartbeat
    heart._task.cancel()
    await asyncio.wait([heart._task])
    await runtime.store.unregister(heart._record(heart.clock.time()))


def evict(runtime: Runtime, cause: str = "evicted") -> None:
    for slot in runtime.table:
        runtime.feed(slot, ev.Evict(cause))


# ---- rounds


@moves(
    "rounds_total",
    "round_duration_seconds",
    "rounds_per_call",
    "park_duration_seconds",
    "journal_bytes",
    "journal_append_duration_seconds",
    "lease_ops_total",
    "store_op_duration_seconds",
    "parked_frames",
    "parked_calls",
    "leases",
)
async def test_a_call_of_two_rounds() -> None:
    async with serving(one) as client:
        begin = await scraped(client)
        reply = await client.call("one")
        parked = await scraped(client)
        assert parked.since(begin) == {**rounds("one", asked=1), **COMMIT}
        assert (parked["parked_frames"], parked["inflight_rounds"]) == (1, 0)
        assert parked['parked_calls{tool="one"}'] == 1 and 'parked_calls{tool="one"}' not in begin.samples
        assert (parked['leases{state="parked"}'], parked['leases{state="running"}']) == (1, 0)
        assert 50 < parked.mean("journal_bytes") < 5000
        await asyncio.sleep(0.05)
        assert (await answer(client, "one", reply)).text == "w"
        end = await scraped(client)
        assert end.since(parked) == {**rounds("one", ended=1), **ended("one"), **resumed("one"), **FINISH}
        assert (end["parked_frames"], end['rounds_per_call_sum{tool="one"}']) == (0, 2)
        assert 0.05 < end.mean("park_duration_seconds", '{tool="one"}') < 5
        assert 0 < end.mean("round_duration_seconds", '{tool="one"}') < 1


async def test_what_an_alert_asks_for_is_there_before_anything_happened() -> None:
    """At 0, for each tool that is advertised: so the first event is seen."""
    async with serving(one) as client:
        begin = await scraped(client)
    names = [f'rounds_total{{outcome="{end}",tool="{tool}"}}' for end in ("ended", "failed", "refused")
             for tool in ("one", "other")]  # fmt: skip
    names += [f'replay_divergence_total{{tool="{tool}"}}' for tool in ("one", "other")]
    names += ['lease_ops_total{op="claim",result="lost"}', 'lease_ops_total{op="claim",result="stuck"}']
    names += [f'tool_paused{{by="{by}",tool="{tool}"}}' for by in ("operator", "framehold")
              for tool in ("one", "other", "resources/read")]  # fmt: skip
    assert {name: begin.samples.get(name) for name in names} == dict.fromkeys(names, 0.0)


@moves("tool_paused")
async def test_a_paused_tool_is_shown_with_who_paused_it() -> None:
    """A name that the server does not advertise is `other`: operators may pause any name."""
    async with serving(one) as client:
        pauses = client.runtime.door.pauses
        assert isinstance(pauses, Pauses)

        async def shown() -> set[str]:
            found = (await scraped(client)).samples
            return {name for name, value in found.items() if name.startswith("tool_paused") and value}

        assert await shown() == set()
        await pauses.pause("one", "it bills twice", "an operator")
        await pauses.pause("made up", "", "an operator")
        assert await shown() == {'tool_paused{by="operator",tool="one"}', 'tool_paused{by="operator",tool="other"}'}
        await pauses.resume("one", "an operator")
        await pauses.resume("made up", "an operator")
        await client.runtime.store.died("one", "b1", 1, "it ended a process")
        await pauses.read()
        assert await shown() == {'tool_paused{by="framehold",tool="one"}'}


@moves("rounds_total", "rounds_per_call", "inflight_rounds", "leases")
async def test_calls_that_never_ask_and_one_that_runs() -> None:
    """They cost the store nothing, and one that fails is told from one that ends."""
    hold = Hold()

    async def waits() -> str:
        hold.entered.set()
        await hold.go.wait()
        return "done"

    async def fails() -> str:
        raise ValueError("no")

    async with serving(waits, fails) as client:
        begin = await scraped(client)
        running = asyncio.create_task(client.call("waits"))
        await hold.entered.wait()
        during = await scraped(client)
        assert (during["inflight_rounds"], during['leases{state="running"}'], during["parked_frames"]) == (1, 1, 0)
        hold.go.set()
        await running
        assert (await client.call("fails")).result["isError"]
        found = {**rounds("waits", ended=1), **ended("waits"), **rounds("fails", failed=1), **ended("fails")}
        assert (await scraped(client)).since(begin) == found


@moves("rounds_total")
async def test_a_client_that_leaves() -> None:
    hold = Hold()
    async with serving(hold.two) as client:
        reply = await client.call("two")
        begin = await scraped(client)
        request = asyncio.create_task(answer(client, "two", reply))
        await hold.entered.wait()
        request.cancel()
        await asyncio.wait([request])
        await until(lambda: not len(client.runtime.table), "the handler's end")
        result = {'rounds_total{outcome="left",tool="two"}': 1}
        assert (await scraped(client)).since(begin) == {**result, **resumed("two")}


@moves("duplicate_rounds_total", "rounds_total")
async def test_each_kind_of_duplicate() -> None:
    hold = Hold()
    async with serving(hold.two) as client:
        first = await client.call("two")
        begin = await scraped(client)
        racing = asyncio.create_task(answer(client, "two", first))
        await hold.entered.wait()
        joins = asyncio.create_task(answer(client, "two", first))
        slot = next(iter(client.runtime.table))
        await until(lambda: len(slot.call.waiting) == 2, "the duplicate to join")
        hold.go.set()
        second, same = await asyncio.gather(racing, joins)
        assert second.asked == same.asked
        joined = await scraped(client)
        found = {**rounds("two", asked=2), **resumed("two"), 'duplicate_rounds_total{result="joined"}': 1, **COMMIT}
        assert joined.since(begin) == found
        assert (await answer(client, "two", first)).asked == second.asked
        repeated = await scraped(client)
        assert repeated.since(joined) == {**rounds("two", asked=1), 'duplicate_rounds_total{result="repeated"}': 1}
        assert "error" in (await answer(client, "two", first, "other")).message
        conflict = await scraped(client)
        assert conflict.since(repeated) == {**rounds("two", refused=1), 'duplicate_rounds_total{result="conflict"}': 1}
        nothing = await client.retry("two", second.token, {})
        assert nothing.asked == second.asked
        again = await scraped(client)
        assert again.since(conflict) == rounds("two", asked=1)
        assert (await answer(client, "two", second)).text == "w w"
        done = await scraped(client)
        assert (await answer(client, "two", second)).text == "w w"
        outcome = {**rounds("two", ended=1), 'duplicate_rounds_total{result="outcome"}': 1, **asked("read")}
        assert (await scraped(client)).since(done) == outcome


@moves("rounds_total")
async def test_a_call_that_meets_a_limit() -> None:
    async with serving(one, max_parked=1) as client:
        await client.call("one")
        begin = await scraped(client)
        assert (await client.call("one")).status == 503
        assert (await scraped(client)).since(begin) == {'rounds_total{outcome="refused",tool="one"}': 1}


# ---- frames that go


@moves("frame_evictions_total", "failovers_total", "replay_total", "replay_duration_seconds")
async def test_a_frame_that_is_evicted_by_count_and_comes_back() -> None:
    """Its claim is counted, and is no failover: nobody waited for a node that was gone."""
    async with serving(framehold.reentrant(one), max_parked=1) as client:
        reply = await client.call("one")
        begin = await scraped(client)
        await client.call("one")
        evicted = await scraped(client)
        gone = {'frame_evictions_total{reason="evicted"}': 1}
        assert evicted.since(begin) == {**rounds("one", asked=1), **COMMIT, **gone}
        assert (await answer(client, "one", reply)).text == "w"
        back = {**asked("read"), **asked("claim"), **replayed("one"), 'failovers_total{reason="evicted"}': 1}
        whole = {**back, **gone, **rounds("one", ended=1), **ended("one"), **FINISH}
        assert (await scraped(client)).since(evicted) == whole


@pytest.fixture
def resident(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """What the process holds, in MiB, as the test says it; the limit is 100."""
    held = [10]
    monkeypatch.setattr(memory, "resident", lambda: held[0] << 20)
    monkeypatch.setattr(memory, "limit", lambda *_: 100 << 20)
    monkeypatch.setattr(eviction, "READING_AGE", -math.inf)
    yield held


async def after_a_burst(resident: list[int]) -> Scrape:
    """What a node says of nine frames, two of which went for memory."""
    resident[0] = 10
    async with serving(framehold.reentrant(one)) as client:
        for _ in range(9):
            await client.call("one")
        begin = await scraped(client)
        assert begin["memory_limit_bytes"] == 100 << 20 and "frame_bytes" not in begin.samples
        resident[0] = 91
        await until(lambda: client.runtime.counts["memory"], "a burst")
        end = await scraped(client)
    assert end['frame_evictions_total{reason="memory"}'] == 2
    return end


@moves("frame_evictions_total", "frame_bytes")
async def test_frames_that_are_evicted_for_memory(resident: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A frame is measured where there are many: nine frames of some KiB are not the cause of 81 MiB."""
    assert "frame_bytes" not in (await after_a_burst(resident)).samples
    monkeypatch.setattr(memory, "MIN_SAMPLE", 9)
    assert (await after_a_burst(resident))["frame_bytes"] == pytest.approx(9 << 20, rel=0.01)


@moves("replay_divergence_total", "replay_total")
async def test_a_replay_that_goes_another_way() -> None:
    text = ["Which?"]

    @framehold.reentrant
    async def drifts(ctx: Context) -> str:
        return said(await ctx.elicit(text[0], Word))

    async with serving(drifts) as client:
        reply = await client.call("drifts")
        evict(client.runtime, "admin")
        begin = await scraped(client)
        assert begin['frame_evictions_total{reason="admin"}'] == 1
        text[0] = "What?"
        assert "isError" in (await answer(client, "drifts", reply)).result
        back = {**asked("read"), **asked("claim"), 'failovers_total{reason="evicted"}': 1}
        stray = {'replay_total{tool="drifts"}': 1, 'replay_divergence_total{tool="drifts"}': 1}
        assert (await scraped(client)).since(begin) == {**back, **stray, **rounds("drifts", refused=1)}


@moves("replay_kept_code_total", "replay_total")
async def test_a_call_that_goes_on_with_its_own_code(redis: RedisServer, tmp_path: Any) -> None:
    def asking(text: str) -> Any:
        @framehold.reentrant
        async def asks(ctx: Context) -> str:
            return text + said(await ctx.elicit(text, Word))

        return asks

    async with sharing(redis, tmp_path.name, "a", asking("Which? ")) as a:
        reply = await a.call("asks")
    async with sharing(redis, tmp_path.name, "b", asking("What? ")) as b:
        begin = await scraped(b)
        assert (await answer(b, "asks", reply)).text == "Which? w"
        grown = (await scraped(b)).since(begin)
        assert grown['replay_kept_code_total{tool="asks"}'] == grown['replay_total{tool="asks"}'] == 1


@moves("replay_total", "replay_duration_seconds", "rounds_per_call", "frame_evictions_total")
async def test_a_call_that_is_in_its_token() -> None:
    """Strategy replay asks no store for anything, and each of its further rounds is a replay and no failover."""
    async with serving(framehold.reentrant(one), strategy="replay") as client:
        begin = await scraped(client)
        reply = await client.call("one")
        parked = await scraped(client)
        passed = {'frame_evictions_total{reason="passed"}': 1, "journal_bytes_count": 1}
        assert parked.since(begin) == {**rounds("one", asked=1), **passed}
        assert (await answer(client, "one", reply)).text == "w"
        end = await scraped(client)
        assert end.since(parked) == {**rounds("one", ended=1), **ended("one"), **replayed("one")}
        assert end['rounds_per_call_sum{tool="one"}'] == 2


@moves("frame_evictions_total", "replay_total", "failovers_total")
async def test_a_call_that_is_rehearsed() -> None:
    async with serving(framehold.reentrant(one), rehearse=True) as client:
        begin = await scraped(client)
        reply = await client.call("one")
        assert (await answer(client, "one", reply)).text == "w"
        found = (await scraped(client)).since(begin)
        assert found['frame_evictions_total{reason="rehearsed"}'] == found['failovers_total{reason="evicted"}'] == 1
        assert found['replay_total{tool="one"}'] == 1
        assert not any("failover_duration" in name for name in found)


# ---- other nodes


@moves("failovers_total", "failover_duration_seconds", "replay_total", "fenced_writes_total", "rounds_total")
async def test_a_takeover_after_a_death_and_the_dead_node_that_still_writes(redis: RedisServer, tmp_path: Any) -> None:
    hold, free = Hold(), Hold()
    free.go.set()
    tools = framehold.reentrant(hold.two), framehold.reentrant(free.two)
    async with two_nodes(redis, tmp_path.name, *tools) as (a, b):
        reply = await a.call("two")
        begin_a, begin_b = await scraped(a), await scraped(b)
        running = asyncio.create_task(answer(a, "two", reply))
        await hold.entered.wait()
        await dies(a.runtime)
        second = await answer(b, "two", reply)
        assert second.messages == ["Second?"]
        taken = {**asked("read"), **asked("claim"), **replayed("two"), 'failovers_total{reason="died"}': 1}
        assert (await scraped(b)).since(begin_b) == {**taken, **FAILED_OVER, **rounds("two", asked=1), **COMMIT}
        hold.go.set()
        await running
        fenced = (await scraped(a)).since(begin_a)
        assert fenced["fenced_writes_total"] == fenced['lease_ops_total{op="commit",result="fenced"}'] == 1
        # Whoever waited there is sent on to the node that has the call.
        assert fenced['rounds_total{outcome="moved",tool="two"}'] == 1
        assert "journal_bytes_count" not in fenced


@moves("failovers_total", "failover_duration_seconds", "node_state")
async def test_a_call_that_is_handed_off(redis: RedisServer, tmp_path: Any) -> None:
    async with two_nodes(redis, tmp_path.name, framehold.reentrant(one), lease_ttl=60.0) as (a, b):
        reply = await a.call("one")
        begin_a, begin_b = await scraped(a), await scraped(b)
        assert [begin_a[f'node_state{{state="{state}"}}'] for state in STATES] == [1, 0, 0, 0]
        await a.runtime.drain(5.0)
        left = await scraped(a)
        assert left.since(begin_a) == asked("release")
        assert [left[f'node_state{{state="{state}"}}'] for state in STATES] == [0, 1, 0, 0]
        assert (await answer(b, "one", reply)).text == "w"
        taken = {**asked("read"), **asked("claim"), **replayed("one"), 'failovers_total{reason="released"}': 1}
        done = {**rounds("one", ended=1), **ended("one"), **FINISH}
        assert (await scraped(b)).since(begin_b) == {**taken, **FAILED_OVER, **done}


@moves("failovers_total", "failover_duration_seconds")
async def test_a_call_of_a_nodes_former_life(redis: RedisServer, tmp_path: Any) -> None:
    async with sharing(redis, tmp_path.name, "a", framehold.reentrant(one)) as a:
        reply = await a.call("one")
        # Nothing is left to hand off: the record stays as a crash would leave it.
        evict(a.runtime)
    async with sharing(redis, tmp_path.name, "a", framehold.reentrant(one)) as a:
        begin = await scraped(a)
        assert (await answer(a, "one", reply)).text == "w"
        taken = {**asked("read"), **asked("claim"), **replayed("one"), 'failovers_total{reason="restarted"}': 1}
        done = {**rounds("one", ended=1), **ended("one"), **FINISH}
        assert (await scraped(a)).since(begin) == {**taken, **FAILED_OVER, **done}


@moves("rounds_total", "leases")
async def test_a_retry_at_a_node_that_has_not_the_call(redis: RedisServer, tmp_path: Any) -> None:
    async with two_nodes(redis, tmp_path.name, one) as (a, b):
        reply = await a.call("one")
        begin = await scraped(b)
        assert (await answer(b, "one", reply)).text == "w"
        b.runtime.orphan_scan.marked = OrphanCounts(9, 3, 2)
        end = await scraped(b)
        assert end.since(begin) == {'rounds_total{outcome="moved",tool="one"}': 1, **asked("read")}
        assert (end['leases{state="orphaned"}'], end['leases{state="stuck"}']) == (3, 2)


# ---- the store, and the lease


@moves("store_errors_total", "lease_ops_total")
async def test_a_store_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(one) as client:
        await client.call("one")
        begin = await scraped(client)
        with monkeypatch.context() as away:
            down = StoreUnavailable("the store is away")
            away.setattr(client.runtime.store, "submit", lambda request, done: done(down))
            assert (await client.call("one")).status == 503
        found = {**rounds("one", refused=1), **asked("commit", "error"), 'store_errors_total{op="commit"}': 1}
        assert (await scraped(client)).since(begin) == found


RENEWED, REGISTERED = (f'lease_ops_total{{op="{op}",result="ok"}}' for op in ("renew", "register"))


@moves("clock_offset_seconds")
async def test_a_wall_clock_that_is_set_while_the_node_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(one) as client:
        assert (await scraped(client))["clock_offset_seconds"] == pytest.approx(0.0, abs=1.0)
        monkeypatch.setattr(client.runtime.clock, "_wall", lambda: time.time() + 90.0)
        assert (await scraped(client))["clock_offset_seconds"] == pytest.approx(-90.0, abs=1.0)


@moves("store_round_trip_ratio")
async def test_how_near_the_store_is_to_too_slow(redis: RedisServer, tmp_path: Any) -> None:
    hold = Hold()
    async with sharing(redis, tmp_path.name, "a", hold.two, lease_ttl=3.0) as a:
        assert 0 < (await scraped(a))["store_round_trip_ratio"] < 1
        for _ in range(5):
            a.runtime.heartbeat.round_trips.add(0.4)
        assert (await scraped(a))["store_round_trip_ratio"] == pytest.approx(0.8)


@moves("store_emptied")
async def test_a_store_that_was_emptied(redis: RedisServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sharing(redis, tmp_path.name, "a", Hold().two, lease_ttl=3.0) as a:
        assert (await scraped(a))["store_emptied"] == 0
        pauses = a.runtime.door.pauses
        with redis.client() as client:
            client.delete(f"fh:{tmp_path.name}:tools")
        await until(lambda: pauses.loss is not None, "the loss to be noticed")
        assert (await scraped(a))["store_emptied"] == 1
        monkeypatch.setattr("framehold.telemetry.prometheus.LOSS_SHOWN", 0.0)
        assert (await scraped(a))["store_emptied"] == 0


HEALED = (("finish", "behind"), ("heal", "ok"), ("finish", "ok"))


@moves("lease_ops_total", "node_state", "node_heartbeat_age_seconds")
async def test_a_lapse_and_a_store_that_went_back(redis: RedisServer, tmp_path: Any) -> None:
    """A new incarnation is registered, each frame is verified before it goes on; a record that is gone is healed."""
    hold = Hold()
    hold.go.set()
    async with sharing(redis, tmp_path.name, "a", hold.two, lease_ttl=3.0) as a:
        heart = a.runtime.heartbeat
        await until(lambda: heart.lease.beat > 1, "a renewal")
        reply = await a.call("two")
        begin, inc = await scraped(a), heart.lease.incarnation
        assert 0 <= begin["node_heartbeat_age_seconds"] < 3
        assert begin[RENEWED] >= begin[REGISTERED] == 1
        with redis.client() as client:
            client.delete(f"fh:{tmp_path.name}:node:a")
            await until(lambda: heart.lease.incarnation != inc and heart.lease.until > 0, "another incarnation")
            # The frame is compared with the store at once, in the background.
            lapsed = await scraped(a)
            while lapsed['lease_ops_total{op="verify",result="ok"}'] < 1:
                lapsed = await scraped(a)
            assert lapsed['lease_ops_total{op="renew",result="missing"}'] == 1 and lapsed[REGISTERED] == 2
            second = await answer(a, "two", reply)
            verified = await scraped(a)
            assert verified.since(lapsed) == {**rounds("two", asked=1), **resumed("two"), **COMMIT}
            client.delete(f"fh:{tmp_path.name}:{{{second.token.split('.')[1]}}}:r")
        assert (await answer(a, "two", second)).text == "w w"
        healed = (await scraped(a)).since(verified)
        wrote = [healed[f'lease_ops_total{{op="{op}",result="{result}"}}'] for op, result in HEALED]
        assert wrote == [1, 1, 1]
        await dies(a.runtime)
        heart.lease = replace(heart.lease, until=-math.inf)
        gone = await scraped(a)
        assert [gone[f'node_state{{state="{state}"}}'] for state in STATES] == [0, 0, 1, 0]
        heart.lost.set()
        gone = await scraped(a)
        assert [gone[f'node_state{{state="{state}"}}'] for state in STATES] == [0, 0, 0, 1]
        age = gone["node_heartbeat_age_seconds"]
        await asyncio.sleep(0.02)
        assert (await scraped(a))["node_heartbeat_age_seconds"] > age + 0.01


@moves("lease_ops_total", "journal_append_duration_seconds")
async def test_effects_under_once() -> None:
    async def effect() -> str:
        return "done"

    async def works(ctx: Context) -> str:
        await framehold.once("it", effect)
        return said(await ctx.elicit("Which?", Word))

    async with serving(works, result_delay=1) as client:
        begin = await scraped(client)
        await client.call("works")
        # The commit takes the result along.
        appends = {"journal_append_duration_seconds_count": 2, "journal_bytes_count": 1}
        writes = {**asked("intent"), **asked("commit")}
        assert (await scraped(client)).since(begin) == {**writes, **appends, **rounds("works", asked=1)}


@moves("store_unreadable")
async def test_what_somebody_else_wrote_into_the_store(
    redis: RedisServer, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Zero from the start. The scan passes over what it can't read, counts it, and sees what comes after it."""
    space = tmp_path.name
    async with sharing(redis, space, "a", one) as a:
        begin = await scraped(a)
        assert (begin['store_unreadable{kind="record"}'], begin['store_unreadable{kind="lease"}']) == (0, 0)
        spoilt, whole = await a.call("one"), await a.call("one")
        with redis.client() as client:
            client.hset(f"fh:{space}:{{{spoilt.token.split('.')[1]}}}:r", "created", "9" * 400)
            client.zadd(f"fh:{space}:nodes", {"z": time.time() * 1000 + 15_000})
            client.set(f"fh:{space}:node:z", f'[2, 2, "i", "b", {10**400}, "z", "", "live", "", "", ""]')
        scan = a.runtime.orphan_scan
        scan._pause = scan._step = 0.0
        scan.marked = await scan.walk()
        found = await scraped(a)
        assert (found['store_unreadable{kind="record"}'], found['store_unreadable{kind="lease"}']) == (1, 1)
        assert scan.marked.looked == 1 and "1 records can't be read: they are passed over" in caplog.text
        assert (await answer(a, "one", whole)).text == "w"


# ---- the node


@moves("wrong_tokens_total")
async def test_a_wrong_token_of_an_operator() -> None:
    async with serving(one, admin_token=TOKEN) as client, httpx2.AsyncClient() as http:
        begin = await scraped(client)
        root = client.url.removesuffix("/mcp")
        for shown, status in (("Bearer wrong", 403), (f"Bearer {TOKEN}", 200), ("", 403)):
            assert (await http.get(f"{root}/admin/node", headers={"authorization": shown})).status_code == status
        assert (await scraped(client)).since(begin) == {"wrong_tokens_total": 1}


@moves("drain_deadline_hits_total", "node_state")
async def test_a_drain_that_meets_its_deadline() -> None:
    """A parked call that nobody else can carry on, or a round that is cut, counts once."""
    async with serving(one) as client:
        await client.call("one")
        begin = await scraped(client)
        await client.runtime.drain(0.01)
        end = await scraped(client)
        assert end.since(begin) == {"drain_deadline_hits_total": 1}
        assert end['node_state{state="draining"}'] == 1


@moves("event_loop_busy_seconds_total")
async def test_a_handler_that_computes() -> None:
    async def computes() -> str:
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            pass
        return "done"

    async with serving(computes) as client:
        begin = await scraped(client)
        await client.call("computes")
        name = "event_loop_busy_seconds_total"
        assert (await scraped(client))[name] - begin[name] >= 0.2


@moves("event_loop_lag_seconds")
async def test_a_handler_that_blocks_the_loop() -> None:
    async def blocks() -> str:
        time.sleep(0.6)
        return "at last"

    async with serving(blocks) as client:
        begin = await scraped(client)
        await client.call("blocks")
        longer = 'event_loop_lag_seconds_bucket{le="0.25"}'
        end = begin
        while end["event_loop_lag_seconds_count"] - end[longer] < 1:
            await asyncio.sleep(0.05)
            end = await scraped(client)
        assert begin["event_loop_lag_seconds_count"] == begin[longer]


# ---- all of them


CONSTANT = ("build_info", "memory_limit_bytes", "max_parked")
"""What doesn't move while a process lives."""


async def test_every_metric_has_a_scenario_and_every_scenario_a_metric() -> None:
    async with serving(one, memory_limit=5 << 30) as client:
        found = await scraped(client)
    assert found["memory_limit_bytes"] == 5 << 30
    assert found["max_parked"] == Settings().max_parked
    assert found.families == {*MOVED, *CONSTANT}
    build = [name for name in found.samples if name.startswith("build_info{")]
    assert len(build) == 1 and found[build[0]] == 1
    assert all(f'{label}="' in build[0] for label in ("version", "python", "mcp"))
    assert {"process_resident_memory_bytes", "process_cpu_seconds_total", "python_info"} <= found.process
