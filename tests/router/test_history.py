"""The history of a fleet: kept by slots of time, the same on every router, and there after a restart."""

from __future__ import annotations

import asyncio
import tracemalloc
import zlib
from dataclasses import astuple
from typing import Any

import pytest

from framehold_core.errors import StoreUnavailable
from framehold_fleet.models.history import Figures, Sample
from framehold_fleet.models.nodes import KeptCodeView, NodeView
from framehold_fleet.models.tools import ToolFigures, ToolsStatus, ToolStatus
from framehold_router.api import history as answers
from framehold_router.collect import history as histories
from framehold_router.collect import samples as collected
from framehold_router.collect.history import COARSE, STEP, History
from framehold_router.collect.samples import Sampler, of_fleet, of_several, packed, release, unpacked
from framehold_router.collect.tool_survey import ToolsSeen
from framehold_store.memory import MemoryStore
from tests.kit.processes import until
from tests.router.cast import NOW, Cast, get, said, saying

FIRST = int(NOW // COARSE) * COARSE // STEP
"""The first slot of the minute of NOW."""
VERSIONS = "1.0", "1.0", "1.1"


class Shelf(MemoryStore):
    """A store that may be away, and counts the samples that were read."""

    def __init__(self) -> None:
        super().__init__(lambda: NOW)
        self.away, self.read = False, 0

    async def keep_sample(self, step: int, slot: int, sample: bytes, ttl: float) -> None:
        if self.away:
            raise StoreUnavailable("the store is away")
        await super().keep_sample(step, slot, sample, ttl)

    async def samples(self, step: int, slots: Any) -> tuple[bytes | None, ...]:
        if self.away:
            raise StoreUnavailable("the store is away")
        self.read += len(slots)
        return await super().samples(step, slots)


class Fleet:
    """The figures of nodes as they are now, on a clock of its own."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.now = store, NOW
        self.nodes: dict[str, dict[str, Any]] = {}
        self.tools: list[ToolsStatus] = []

    async def ask(self) -> list[NodeView]:
        known = {"incarnation": "i", "boot": "b", "state": "live", "address": ""}
        return [NodeView(node_id=name, **{**known, **fields}) for name, fields in self.nodes.items()]

    async def ask_tools(self) -> ToolsSeen:
        return ToolsSeen(tuple(self.tools), ())

    def router(self) -> History:
        return History(self.store, self.ask, self.ask_tools, lambda: self.now)

    async def passed(self, router: History, slot: int, **nodes: dict[str, Any]) -> None:
        self.nodes, self.now = nodes, (slot + 1) * STEP
        await router.keep(slot)


def rates(samples: list[Sample | None], node: str = "a") -> list[float | None]:
    return [None if item is None or node not in item.nodes else item.nodes[node].rounds for item in samples]


async def test_a_rate_is_of_its_slot() -> None:
    store = Shelf()
    fleet = Fleet(store)
    router = fleet.router()
    for slot, rounds, boot in ((0, 100, "b"), (1, 150, "b"), (2, 150, "b"), (3, 20, "c"), (4, 30, "c")):
        await fleet.passed(router, FIRST + slot, a={"rounds": rounds, "boot": boot, "parked": slot})
    found = await router.samples(STEP, range(FIRST, FIRST + 6))
    assert rates(found) == [None, 5.0, 0.0, None, 1.0, None]
    assert [item.nodes["a"].parked for item in found if item is not None] == [0, 1, 2, 3, 4]
    slots = range(FIRST - 20, FIRST + 1)
    await router.samples(STEP, slots)
    store.read = 0
    await router.samples(STEP, slots)
    # Of the 20 slots before it, which nobody has sampled, those of the last two minutes.
    assert store.read == 8


async def test_two_routers_and_a_restarted_one_show_the_same() -> None:
    fleet = Fleet(Shelf())
    one, other = fleet.router(), fleet.router()
    for slot in range(6):
        await fleet.passed(one, FIRST + slot, a={"rounds": 10 * slot})
        await fleet.passed(other, FIRST + slot, a={"rounds": 10 * slot + 3})
    slots = range(FIRST, FIRST + 6)
    seen = await one.samples(STEP, slots)
    assert rates(seen) == [None, 1.0, 1.0, 1.0, 1.0, 1.0]
    assert await other.samples(STEP, slots) == seen
    assert await fleet.router().samples(STEP, slots) == seen
    minute = [FIRST * STEP // COARSE]
    assert rates(await fleet.router().samples(COARSE, minute)) == [1.0]
    assert await one.samples(COARSE, minute) == await other.samples(COARSE, minute)


async def test_a_sample_is_kept_at_the_end_of_each_slot(caplog: pytest.LogCaptureFixture) -> None:
    store, loop = Shelf(), asyncio.get_running_loop()
    began, asked = loop.time(), 0

    async def ask() -> list[NodeView]:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise ValueError("a bug")
        return []

    def clock() -> float:
        # 9.95 seconds of each slot have passed already.
        passed = loop.time() - began
        return FIRST * STEP + passed + (int(passed / 0.05) + 1) * 9.95

    task = asyncio.create_task(History(store, ask, Fleet(store).ask_tools, clock).run())
    try:
        await until(lambda: len(store._samples) >= 2, "two samples")
    finally:
        task.cancel()
        await asyncio.wait((task,))
    assert "a bug in keeping the history" in caplog.text


async def test_while_the_store_is_away_a_router_knows_its_own_samples(caplog: pytest.LogCaptureFixture) -> None:
    store = Shelf()
    fleet = Fleet(store)
    router = fleet.router()
    await fleet.passed(router, FIRST, a={"parked": 1})
    assert (await router.samples(STEP, [FIRST]))[0] is not None
    store.away = True
    await fleet.passed(router, FIRST + 1, a={"parked": 2})
    await fleet.passed(router, FIRST + 2, a={"parked": 3})
    found = await router.samples(STEP, range(FIRST, FIRST + 3))
    assert [item.nodes["a"].parked for item in found if item is not None] == [1, 2, 3]
    assert caplog.text.count("is not kept") == 1, "once, not for each sample"
    store.away = False
    assert await fleet.router().samples(STEP, [FIRST + 1]) == [None]


async def test_what_nobody_looks_at_is_not_kept_in_memory() -> None:
    """A day of 100 nodes takes more than 100 MB, and one look would hold it for as long as the router runs. What ended
    is forgotten."""
    store = Shelf()
    fleet = Fleet(store)
    router = fleet.router()
    await fleet.passed(router, FIRST, a={"parked": 1})
    minute = FIRST * STEP // COARSE
    await store.keep_sample(COARSE, minute, packed(Sample(nodes={"a": Figures(parked=1)})), 3600.0)
    await router.samples(COARSE, [minute])
    store.away = True
    await fleet.passed(router, FIRST + 1, a={"parked": 2})
    assert minute in router._known[COARSE]
    await fleet.passed(router, FIRST + 2 + histories.REMEMBERED // STEP, a={"parked": 3})
    assert not router._known[COARSE] and not router._known[STEP]
    store.away = False
    found = await router.samples(STEP, [FIRST + 1])
    assert rates(found) == [0.0] or found[0] is not None, "what only this router knows is not forgotten"
    assert (await router.samples(COARSE, [minute]))[0] is not None
    later = FIRST + (histories.KEPT[STEP] + 300) // STEP
    await router.samples(STEP, [FIRST, later])
    await fleet.passed(router, later, a={"parked": 1})
    assert FIRST not in router._known[STEP]


FIGURES = Figures(rounds=123.456, ended=12.3, failed=0.5, p50=0.0123, p99=0.1234, store=0.001, lag=0.002, busy=0.5,
                  parked=1234, running=1234, frames=1234, rss=123456789)  # fmt: skip


async def test_other_work_runs_while_many_samples_are_read() -> None:
    """Those of a large fleet take up to a second of CPU."""
    store, slots, turns = Shelf(), range(FIRST - 100, FIRST), 0
    for slot in slots:
        await store.keep_sample(STEP, slot, packed(Sample(nodes={"a": Figures(parked=1)})), 3600.0)

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other_work())
    assert None not in await Fleet(store).router().samples(STEP, slots)
    task.cancel()
    assert turns >= 10


def test_the_figures_of_a_node_take_little_room() -> None:
    """A router holds those of 100 nodes in 1,800 slots while somebody looks at a day, and a store those of a day."""
    nodes = {f"node-{number}": FIGURES for number in range(100)}
    sample = Sample(nodes=nodes, fleet=of_fleet(nodes.values()), release="1.0.0 abcdefab")
    data = packed(sample)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        held = unpacked(data)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held == sample and after - before < 100 * 700
    few = dict(list(nodes.items())[:3])
    assert len(packed(Sample(nodes=few, fleet=of_fleet(few.values())))) < 400


def test_the_figures_of_a_fleet_and_of_a_minute() -> None:
    nodes = {"a": Figures(rounds=1, p99=0.5, p50=0.1, parked=3, busy=0.2), "b": Figures(rounds=2, p99=0.2, parked=4)}
    assert of_fleet(nodes.values()) == Figures(rounds=3, p99=0.5, p50=0.1, parked=7, busy=0.2)
    one = ToolFigures(asked=1, took=(0, 1), parked=4)
    other = ToolFigures(asked=2, took=(0, 0, 3), thought=(1,), parked=1)
    later = Sample(nodes={"a": Figures(rounds=3, p99=0.4, p50=0.3, parked=6)}, release="2", tools={"t": other})
    of_minute = of_several([Sample(nodes=nodes, release="1", tools={"t": one}), Sample(), later])
    assert of_minute.release == "2"
    assert of_minute.nodes == {"a": Figures(rounds=2, p99=0.5, p50=0.2, parked=4, busy=0.2), "b": nodes["b"]}
    assert of_minute.tools == {"t": ToolFigures(asked=3, took=(0, 1, 3), thought=(1,), parked=2)}
    assert of_several([]) == Sample()


def test_a_minute_in_which_nodes_and_tools_took_turns_is_as_each_of_its_slots() -> None:
    """A deploy gives each node another name."""
    slots = [
        Sample(nodes={node: FIGURES}, fleet=FIGURES, tools={tool: ToolFigures(asked=10, parked=100)})
        for node, tool in (("a", "s"), ("b", "s"), ("c", "t"), ("c", "t"))
    ]
    minute = of_several(slots)
    assert minute.fleet == FIGURES and None not in astuple(FIGURES)
    assert minute.nodes == dict.fromkeys("abc", FIGURES)
    assert minute.tools == dict.fromkeys("st", ToolFigures(asked=20, parked=50))


@pytest.mark.parametrize(
    "data", [b"", b"no", zlib.compress(b"no"), zlib.compress(b'{"nodes": 1}'), zlib.compress(b" " * (1 << 20))]
)
def test_a_sample_of_somebody_else_is_none(data: bytes) -> None:
    assert unpacked(data) is None


async def test_the_answer_has_series_and_marks(cast: Cast) -> None:
    nodes = [{"a": Figures(parked=parked), "b": Figures(parked=10)} for parked in (1, 2, 3)]
    slots = zip(nodes, VERSIONS, strict=True)
    end = await keeps(cast, *(Sample(nodes=of, fleet=of_fleet(of.values()), release=version) for of, version in slots))
    drain = {"id": "1", "at": NOW - 15, "node_id": "b", "kind": "drain", "text": "node b was told to drain"}
    for event in (drain, {**drain, "id": "2", "kind": "takeover"}, {**drain, "id": "3", "at": NOW - 5000}):
        await cast.logs(event=event)
    client = await cast.client()
    view = await get(client, "/api/v1/history?range=15m")
    assert (view["step"], view["start"]) == (STEP, (end - 90) * STEP)
    assert list(view["series"]) == ["parked"] and view["nodes"] == {}
    assert view["series"]["parked"] == [None] * 87 + [11, 12, 13]
    marks = [(mark["kind"], mark["at"]) for mark in view["marks"]]
    assert marks == [("drain", NOW - 15), ("deployed", end * STEP)]
    assert view["marks"][0]["event"]["id"] == "1" and view["marks"][1]["event"] is None
    assert "1.1" in view["marks"][1]["text"] and "1.0" in view["marks"][1]["text"]
    of_one = await get(client, "/api/v1/history?range=1h&node=a")
    assert len(of_one["series"]["parked"]) == 360 and of_one["series"]["parked"][-3:] == [1, 2, 3]
    assert [mark["kind"] for mark in of_one["marks"]] == ["deployed"]
    each = await get(client, "/api/v1/history?range=15m&each=true")
    assert each["nodes"]["b"]["parked"][-3:] == [10, 10, 10]
    assert (await get(client, "/api/v1/history?range=24h"))["step"] == COARSE
    await get(client, "/api/v1/history?range=2h", 400)
    cast.more["history"] = None
    assert "FRAMEHOLD_HISTORY" in (await get(await cast.client(), "/api/v1/history", 404))["error"]


async def test_the_history_of_one_tool(cast: Cast) -> None:
    called = ToolFigures(asked=10, ended=8, failed=2, refused=1, took=(0, 0, 20), thought=(0, 4), parked=7)
    await keeps(cast, Sample(tools={"t": called}), Sample())
    view = await get(await cast.client(), "/api/v1/history?range=15m&tool=t")
    last = {name: values[-3:] for name, values in view["series"].items()}
    assert last["rounds"] == [None, 2.0, 0.0] and last["failed"] == [None, 0.2, 0.0]
    assert last["parked"] == [None, 7, 0]
    assert last["p50"] == [None, pytest.approx(0.00175), None], "the middle of the bucket"
    assert last["think"] == [None, 3.0, None]


async def test_a_sample_is_of_what_nodes_say(cast: Cast) -> None:
    figures = {"rounds": 5, "calls_ended": 3, "calls_failed": 1, "resume_p99": 0.25, "loop_busy": 0.5}
    await cast.node("a", saying(said("a", **figures)))
    await cast.node("b", saying("", 500))
    history = (await cast.sources()).history
    assert history is not None
    await history.keep(FIRST)
    (sample,) = await history.samples(STEP, [FIRST])
    assert sample is not None
    assert sample.nodes["a"] == Figures(p99=0.25, busy=0.5, parked=12, running=13)
    assert sample.nodes["b"] == Figures(parked=2, running=3)


async def keeps(cast: Cast, *samples: Sample) -> int:
    end = int(NOW // STEP)
    for slot, sample in enumerate(samples, end - len(samples)):
        await cast.store.keep_sample(STEP, slot, packed(sample), 3600.0)
    return end


async def test_of_the_nodes_of_a_day_those_that_were_there_last_are_listed(
    cast: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An autoscaled fleet has hundreds of names in a day, and a list of all would take hundreds of megabytes."""
    monkeypatch.setattr(answers, "MAX_NODES", 2)
    of_each = (dict.fromkeys(names, Figures(parked=1)) for names in ("abc", "acd", "d"))
    await keeps(cast, *(Sample(nodes=nodes, fleet=of_fleet(nodes.values())) for nodes in of_each))
    view = await get(await cast.client(), "/api/v1/history?range=15m&each=true")
    assert list(view["nodes"]) == ["a", "d"]
    assert view["series"]["parked"][-3:] == [3, 3, 1]


def test_the_figures_of_a_fleet_are_those_of_all_its_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample has the figures of so many nodes only."""
    monkeypatch.setattr(collected, "MAX_NODES", 2)
    known: dict[str, Any] = {"incarnation": "i", "boot": "b", "state": "live", "address": "", "parked": 100}
    sampler = Sampler()
    for now in (0, 10):
        nodes = [NodeView(node_id=name, rounds=3 * now, loop_lag_p99=ord(name), **known) for name in "abc"]
        nodes[2] = nodes[2].model_copy(update={"version": "2"})
        sample = sampler.sample(nodes, (), float(now))
    assert list(sample.nodes) == ["a", "b"] and sample.release == "2"
    assert (sample.fleet.parked, sample.fleet.rounds, sample.fleet.lag) == (300, 9.0, ord("c"))
    assert unpacked(packed(sample)) == sample


def test_a_release_is_a_version_and_its_code() -> None:
    known: dict[str, Any] = {"incarnation": "i", "boot": "b", "state": "live", "address": ""}
    code = (KeptCodeView(handler="t", digest="d", bytes=1),)
    old, new = NodeView(node_id="a", version="1", **known), NodeView(node_id="b", version="2", kept_code=code, **known)
    assert release([old]) == "1"
    assert release([new, old]).startswith("1 2 ") and release([new, old]) == release([old, new])
    other = new.model_copy(update={"kept_code": (KeptCodeView(handler="t", digest="e", bytes=1),)})
    assert release([other]) != release([new])


def test_a_node_that_is_silent_for_a_while_serves_what_its_life_served() -> None:
    """In a rolling update each silence would else look like two deploys."""
    code = (KeptCodeView(handler="t", digest="d", bytes=1),)
    known: dict[str, Any] = {"incarnation": "i", "state": "live", "address": ""}
    old = NodeView(node_id="a", boot="b", version="1", **known)
    new = NodeView(node_id="b", boot="b", version="2", kept_code=code, **known)
    silent = new.model_copy(update={"state": "unreachable", "kept_code": (), "unanswered": "it sent nothing"})
    anew = silent.model_copy(update={"boot": "c"})
    assert Sampler().sample([silent], (), 0.0).release == "", "its lease does not tell what code it has"
    sampler = Sampler()
    served = [sampler.sample(nodes, (), float(now)).release for now, nodes in enumerate(
        ([old, new], [old, silent], [old, silent], [silent], [old], [old, silent], [old, new], [old, anew])
    )]  # fmt: skip
    of_both, of_new = release([old, new]), release([new])
    assert served == [of_both, of_both, of_both, of_new, "1", "1", of_both, "1"], "a life without a lease is forgotten"


def status(node: str, boot: str = "b", **counts: Any) -> ToolsStatus:
    return ToolsStatus(node_id=node, boot=boot, tools=(ToolStatus(tool="t", **counts),))


def test_a_tool_is_counted_since_the_last_sample_on_all_nodes() -> None:
    """What a process counted before it was first asked is of an earlier time."""
    sampler = Sampler()
    assert sampler.sample((), [status("a", asked=5, took=(1, 2))], 0.0).tools == {}
    both = [status("a", asked=7, took=(1, 4), parked=1), status("b", asked=9, parked=2)]
    assert sampler.sample((), both, 10.0).tools == {"t": ToolFigures(asked=2, took=(0, 2), parked=3)}
    anew = [status("a", boot="c", asked=1, took=(1,)), status("b", asked=10, failed=1)]
    assert sampler.sample((), anew, 20.0).tools == {"t": ToolFigures(asked=1, failed=1, parked=0)}
    assert sampler.sample((), anew, 30.0).tools == {}, "nobody called it, and nothing is parked"
