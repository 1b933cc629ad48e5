"""The event logs of nodes: each entry is asked for once, kept for a while when the node is gone, and bounded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from framehold_core.ids import Boot, NodeId
from framehold_router.api import event_logs, shared_look
from framehold_router.api.event_logs import Gathered, Life
from framehold_router.api.events import Events
from framehold_router.api.failovers import Failovers
from framehold_router.api.sources import Sources
from framehold_router.models.events import EventView, Happened, TakeoverView
from tests.router.cast import NOW, Cast, cast_of, get, said, saying

pytestmark = pytest.mark.anyio


def event(number: int, node: str = "a", kind: str = "takeover") -> EventView:
    return EventView(id=f"{number:09}", at=NOW + number, node_id=node, kind=kind, text=f"event {number}")


def takeover(call: str, outcome: Any = "recovered", to: str = "a") -> TakeoverView:
    return TakeoverView(
        call=call, tool="t", reason="died", from_node="z", to_node=to, epoch=2, asked=NOW, outcome=outcome
    )


class Teller:
    """A node that tells as nodes do: each thing by its number, of which the last counts."""

    def __init__(self, name: str, boot: str = "b") -> None:
        self.name, self.boot = name, boot
        self.things: list[EventView | TakeoverView] = []
        self.fenced = 0
        self.numbered = True
        """Whether it is of a release that numbers them."""
        self.afters: list[str | None] = []
        """What it was asked for."""
        self.silent = False

    def tell(self, *things: EventView | TakeoverView) -> None:
        self.things += things

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.afters.append(request.query.get("after"))
        if self.silent:
            return web.Response(status=500)
        after = int(request.query.get("after", "0")) if self.numbered else 0
        since = self.things[after:]
        happened = Happened(
            node_id=self.name,
            boot=self.boot,
            events=tuple(item for item in since if isinstance(item, EventView)),
            takeovers=tuple({item.call: item for item in since if isinstance(item, TakeoverView)}.values()),
            fenced=self.fenced,
            seq=len(self.things),
        )
        told = happened.model_dump(exclude=set() if self.numbered else {"seq"})
        return await saying(told)(request)


class Stage:
    """A router's sources, and nodes that tell."""

    def __init__(self, cast: Cast) -> None:
        self.cast = cast
        self._sources: Sources | None = None

    async def teller(self, name: str, boot: str = "b") -> Teller:
        made = Teller(name, boot)
        await self.cast.node(name, saying(said(name, boot=boot)), {"GET /admin/events": made.answer}, boot=boot)
        return made

    async def sources(self) -> Sources:
        if self._sources is None:
            self._sources = await self.cast.sources()
        return self._sources

    async def look(self) -> Gathered:
        return await (await self.sources()).event_logs.gathered()

    async def events(self) -> list[str]:
        """By their ids."""
        gathered = await self.look()
        return [item.id.lstrip("0") for told in (*gathered.here, *gathered.gone) for item in told.events]


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    """Each look asks anew."""
    monkeypatch.setattr(shared_look, "FRESH", 0.0)
    async with cast_of() as cast:
        yield Stage(cast)


async def test_a_node_is_asked_for_what_came_after_what_it_told(stage: Stage) -> None:
    """The router gives all entries, the newest last; a changed takeover keeps its place and has its new state."""
    a = await stage.teller("a")
    a.tell(event(1), takeover("c1", "under way"), takeover("c2"))
    first = await stage.look()
    a.tell(event(2), takeover("c1"))
    a.fenced = 7
    [told] = (await stage.look()).here
    assert a.afters == [None, "3"]
    assert [item.id for item in told.events] == [event(1).id, event(2).id]
    assert [(item.call, item.outcome) for item in told.takeovers] == [("c1", "recovered"), ("c2", "recovered")]
    assert (told.fenced, told.seq) == (7, 5)
    assert first.here[0].takeovers[0].outcome == "under way", "what was handed out stays as it was"


async def test_where_nothing_is_new_nothing_is_made_anew(stage: Stage) -> None:
    """Neither what was gathered nor what was made of it; and one thing more makes all anew."""
    a, b = await stage.teller("a"), await stage.teller("b")
    a.tell(event(1), takeover("c1"))
    failovers, events, sources = Failovers(), Events(), await stage.sources()
    before = await stage.look()
    view, latest = failovers.view(sources, before), events.latest(sources, before)
    after = await stage.look()
    assert after is before
    assert failovers.view(sources, after) is view and events.latest(sources, after) is latest
    b.tell(takeover("c2", to="b"), event(2, "b"))
    after = await stage.look()
    assert failovers.view(sources, after).failovers[0].recovered == 2
    assert [item.node_id for item in events.latest(sources, after)] == ["b", "a"]
    sources.departures._add_event("node_lost", NodeId("z"), NOW, "is lost")  # type: ignore[arg-type]
    assert len(events.latest(sources, await stage.look())) == 3, "what this router saw is new too"


async def test_those_who_look_at_the_same_moment_share_one_asking(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Overview, events and failovers, within half a second; a fleet that has changed is asked anew."""
    monkeypatch.setattr(shared_look, "FRESH", 60.0)
    a = await stage.teller("a")
    client = await stage.cast.client()
    paths = [f"/api/v1/{name}" for name in ("overview", "events", "failovers")]
    await asyncio.gather(*(get(client, path) for path in paths))
    for path in paths:
        await get(client, path)
    assert a.afters == [None]
    b = await stage.teller("b")
    b.tell(event(1, "b"))
    assert len((await get(client, "/api/v1/events"))["events"]) == 1


async def test_a_node_of_an_older_release_tells_all_each_time(stage: Stage) -> None:
    """It sends no `seq`: each answer replaces the one before."""
    a = await stage.teller("a")
    a.numbered = False
    a.tell(event(1), event(2))
    before = await stage.look()
    assert await stage.look() is before, "the same again is nothing new"
    a.things = [event(2), event(3)]
    assert await stage.events() == ["2", "3"]
    assert a.afters == [None] * 3


async def test_a_node_that_began_anew_is_asked_for_all(stage: Stage) -> None:
    """The lease may show the new process, or only its answer; the log of the earlier process is kept."""
    a = await stage.teller("a", "b1")
    a.tell(event(1), event(2))
    await stage.look()
    a.boot, a.things = "b2", [event(3), event(4), event(5)]
    assert sorted(await stage.events()) == ["1", "2", "3", "4", "5"]
    assert a.afters == [None, "2", None]
    a.tell(event(6))
    stage.cast.members = [stage.cast.members[0]._replace(boot=Boot("b2"))]
    gathered = await stage.look()
    assert a.afters[3:] == ["3"]
    assert [(told.boot, len(told.events)) for told in gathered.here] == [("b2", 4)]
    assert [(told.boot, len(told.events)) for told in gathered.gone] == [("b1", 2)]


async def test_what_a_node_had_told_is_kept_when_it_is_gone(stage: Stage) -> None:
    """What was under way there has failed; its refused writes are no longer counted. After an hour it is forgotten."""
    a, b = await stage.teller("a"), await stage.teller("b")
    a.tell(event(1), takeover("c1", "under way"), takeover("c2"))
    b.tell(event(2, "b"))
    a.fenced, b.fenced = 5, 2
    client = await stage.cast.client()
    before = await get(client, "/api/v1/failovers")
    assert (before["fenced"], before["failovers"][0]["under_way"]) == (7, 1)
    stage.cast.members = stage.cast.members[1:]
    told = await get(client, "/api/v1/failovers")
    [found] = told["failovers"]
    assert (told["fenced"], found["under_way"], found["failed"], found["recovered"]) == (2, 0, 1, 1)
    assert [item["node_id"] for item in (await get(client, "/api/v1/events"))["events"]] == ["b", "a"]
    assert (await get(client, "/api/v1/overview"))["nodes"] == {"live": 1}
    stage.cast.now += event_logs.FORGET_AFTER - 1
    assert (await get(client, "/api/v1/failovers"))["failovers"] == [found]
    stage.cast.now += 2
    assert (await get(client, "/api/v1/failovers"))["failovers"] == []
    assert [item["node_id"] for item in (await get(client, "/api/v1/events"))["events"]] == ["b"]


async def test_a_node_whose_lease_comes_back_goes_on(stage: Stage) -> None:
    """What was under way there still is, and it is asked for what came after."""
    a = await stage.teller("a")
    a.tell(event(1), takeover("c1", "under way"))
    await stage.look()
    members, stage.cast.members = stage.cast.members, []
    assert (await stage.look()).gone[0].takeovers[0].outcome == "failed"
    stage.cast.members = members
    stage.cast.now += event_logs.FORGET_AFTER * 2
    gathered = await stage.look()
    assert (gathered.here[0].takeovers[0].outcome, gathered.gone, a.afters) == ("under way", (), [None, "2"])


async def test_a_node_that_does_not_answer_has_told_what_it_told(stage: Stage) -> None:
    """It has a lease: it is not gone, however long that lasts."""
    a = await stage.teller("a")
    a.tell(event(1))
    before = await stage.look()
    a.silent = True
    stage.cast.now += event_logs.FORGET_AFTER * 2
    assert await stage.look() is before


async def test_another_node_at_an_address_answers_for_itself_alone(stage: Stage) -> None:
    """The lease there is of one that has gone."""
    b = await stage.teller("b")
    b.tell(event(1, "b"))
    stage.cast.members.append(stage.cast.members[0]._replace(node=NodeId("a")))
    gathered = await stage.look()
    assert [told.node_id for told in gathered.here] == ["b"]
    stage.cast.members = stage.cast.members[1:]
    gathered = await stage.look()
    assert (gathered.here, [told.node_id for told in gathered.gone]) == ((), ["b"])


async def test_no_more_is_kept_of_a_life_than_the_last_of_each(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it tells something new, and however much at once."""
    monkeypatch.setattr(event_logs, "MAX_PER_LIFE", 3)
    a = await stage.teller("a")
    for number in range(0, 20, 2):
        a.tell(event(number), takeover(f"c{number}"), event(number + 1))
        [told] = (await stage.look()).here
    assert [item.id.lstrip("0") for item in told.events] == ["17", "18", "19"]
    assert [item.call for item in told.takeovers] == ["c14", "c16", "c18"]


async def test_of_nodes_that_are_gone_only_so_much_is_kept(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that went first are forgotten first; a life that had nothing to tell is at once."""
    monkeypatch.setattr(event_logs, "MAX_OF_GONE_LIVES", 5)
    for number in range(6):
        node = await stage.teller(f"n{number}")
        node.tell(*(event(10 * number + more, node.name) for more in range(2 if number else 0)))
        await stage.look()
        stage.cast.members = []
        stage.cast.now += 1.0
        gathered = await stage.look()
    assert [told.node_id for told in gathered.gone] == ["n4", "n5"]
    assert len((await stage.sources()).event_logs._lives) == 2 and not (await stage.sources()).event_logs._answering


def test_an_answer_that_was_overtaken_changes_nothing() -> None:
    """Of two that are under way the later may be here first: the other would put back what has gone on."""
    life = Life((NodeId("a"), Boot("b")))
    life.add(Happened(node_id="a", boot="b", takeovers=(takeover("c1"),), seq=5))
    later = life.log
    life.add(Happened(node_id="a", boot="b", takeovers=(takeover("c1", "under way"),), seq=3))
    assert life.log is later
