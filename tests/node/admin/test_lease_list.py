"""A node lists its calls: which, in what order, a page at a time, and without keeping the loop from anybody."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp.server.mcpserver import Context

from framehold.admin import lease_list
from framehold.engine.orphan_scan import OrphanCounts
from framehold.engine.replies import Parked
from framehold.frame.frame import Frame
from framehold_core.events import Evict
from framehold_core.ids import CallId
from framehold_core.requests import RecordState
from framehold_core.value import replace
from framehold_fleet.models.calls import LeaseQuery, LeaseView
from framehold_fleet.models.choices import Sort, State
from framehold_fleet.models.paging import key
from framehold_store.base import Summary
from tests.kit.engine import Carrier, Engine, ScriptHandler, engine, question
from tests.kit.nodes import KEY
from tests.kit.operators import TOKEN, Operator, call_of, marked, unmarked
from tests.kit.processes import until
from tests.kit.serving import Served, Word, said, serving

pytestmark = pytest.mark.anyio


async def asks(frame: Frame) -> object:
    """Asks one question."""
    return await frame.ask(question("a?"))


async def parked(at: Engine, count: int, *, reentrant: bool = True) -> list[Parked]:
    """So many calls that wait for their answers."""
    made = [await at.runtime.start(ScriptHandler(asks, reentrant=reentrant), Carrier()) for _ in range(count)]
    assert all(isinstance(item, Parked) for item in made)
    return [item for item in made if isinstance(item, Parked)]


async def pages(at: Engine, **query: Any) -> list[LeaseView]:
    """All pages, put together."""
    found: list[LeaseView] = []
    after = None
    while True:
        page = await lease_list.leases(at.runtime, LeaseQuery(after=after, **query))
        assert page.next is None or len(page.items) == query.get("limit", 100)
        found += page.items
        if (after := page.next) is None:
            return found


def summary(call: str, attempts: int = 0, owner: str = "gone", tool: str = "lost-tool") -> Summary:
    """A record as a walk reads it."""
    at = time.time()
    return Summary(
        *(CallId(call), RecordState.OPEN, owner, "i", "b", 2, 1, attempts, True, tool, "hold"),
        *(at - 5.0, at + 900.0),
    )


# ---- what a call's view tells


@pytest.fixture
async def at() -> AsyncIterator[Served]:
    async with serving(marked, unmarked, admin_token=TOKEN, keys=(KEY,)) as it:
        yield it


@pytest.fixture
async def operator(at: Served) -> AsyncIterator[Operator]:
    async with Operator(at.url) as it:
        yield it


async def test_a_call_is_told_as_it_stands_and_nothing_of_what_was_said(at: Served, operator: Operator) -> None:
    before = time.time()
    held = await at.call("marked", arguments={"name": "a-secret-name"})
    held = await at.retry("marked", held.token, held.accept(word="a-secret-word"), arguments={"name": "a-secret-name"})
    page = await operator.leases()
    assert (page["total"], page["next"]) == (1, None)
    (item,) = page["items"]
    times = {name: item.pop(name) for name in ("began", "resumed", "expires")}
    assert item.pop("journal_bytes") > 100
    assert item == {
        "call_id": call_of(held.token),
        "tool": "marked",
        "method": "tools/call",
        "node_id": "stage",
        "state": "parked",
        "phase": "waiting for answers",
        "strategy": "hold",
        "reentrant": True,
        "epoch": 1,
        "round": 2,
        "replayed": False,
        "entries": 3,
        "stands_at": [],
    }
    assert before - 0.1 <= times["began"] <= times["resumed"] <= time.time() + 0.1
    assert abs(times["expires"] - time.time() - 600) < 5
    assert "secret" not in str(page)


async def test_a_call_that_is_replayed_keeps_when_it_began(at: Served, operator: Operator) -> None:
    came = at.runtime.clock.time()
    held = await at.call("marked")
    (before,) = (await operator.leases())["items"]
    parked = at.runtime.clock.time()
    await operator.evict(call_of(held.token))
    assert (await operator.leases())["items"] == []
    await at.retry("marked", held.token, held.accept(word="x"))
    (after,) = (await operator.leases())["items"]
    assert (after["replayed"], after["epoch"]) == (True, 2)
    assert before["resumed"] is None and after["resumed"]
    assert came - 0.1 <= before["began"] <= parked and came - 0.1 <= after["began"] <= parked + 0.1


async def test_running_calls_are_listed_as_such_and_those_without_a_frame_are_not(at: Served) -> None:
    goes_on = asyncio.Event()

    async def runs(ctx: Context) -> str:
        """Runs until it may go on, and asks."""
        await goes_on.wait()
        return said(await ctx.elicit("a?", Word))

    at.server.tool()(runs)
    running = asyncio.create_task(at.call("runs"))
    await until(lambda: len(at.runtime.table), "the call")
    async with Operator(at.url) as operator:
        (item,) = (await operator.leases())["items"]
        result = (item["state"], item["tool"], item["round"], item["expires"], item["resumed"])
        assert result == ("running", "runs", 0, None, None)
        assert (await operator.leases(state="parked"))["total"] == 0
        goes_on.set()
        await running
        assert (await operator.leases(state="parked"))["total"] == 1
        assert (await operator.leases(state="running"))["total"] == 0


class Named(ScriptHandler):
    """A handler of any name."""

    def __init__(self, name: str) -> None:
        super().__init__(asks)
        self.tool = name


async def test_hostile_names_are_told_as_they_can_be(at: Served, operator: Operator) -> None:
    """A tool may be called anything that JSON can spell, and a node lease may hold half of a pair."""
    names = ['=cmd|" /C calc"!A0', "<script>", "a\nb\r\nc\0", "\u202etxt", "x" * 500, "'; DROP TABLE--", "\ud83d=1"]
    for name in names:
        await at.runtime.start(Named(name), Carrier())
    mark = summary("m" * 22, owner="\ud800" * 300, tool="\udfff=1+1")
    at.runtime.orphan_scan.marked = OrphanCounts(1, 1, calls=(mark,))
    items = (await operator.leases())["items"]
    result = {*names[:4], "x" * 200, names[5], "?=1", "?=1+1"}
    assert {item["tool"] for item in items} == result
    assert [item["node_id"] for item in items if item["state"] == "orphaned"] == ["?" * 200]
    for name in result:
        assert (await operator.leases(tool=name))["total"] == 1


# ---- filters


async def test_each_filter_lets_through_what_it_says() -> None:
    async with engine() as at:
        calls = [item.call for item in await parked(at, 6)]
        runtime = at.runtime
        slots = {call: runtime.table.get(call) for call in calls}
        for call in calls[:2]:
            slot = slots[call]
            assert slot is not None
            slot.call = replace(slot.call, expires=slot.call.expires - 590.0)
        taken = slots[calls[5]]
        assert taken is not None
        taken.replayed = True

        async def found(**query: Any) -> list[str]:
            page = await lease_list.leases(runtime, LeaseQuery(**query))
            assert page.total == len(page.items)
            return sorted(item.call_id for item in page.items)

        assert await found() == sorted(calls)
        assert await found(expiring=30.0) == sorted(calls[:2])
        assert await found(expiring=700.0) == sorted(calls)
        assert await found(replayed=True) == [calls[5]]
        assert await found(replayed=False, expiring=30.0) == sorted(calls[:2])
        assert await found(call=calls[3][:12]) == [calls[3]]
        assert await found(tool="another") == [] and await found(tool="") == sorted(calls)
        assert await found(node="desk") == sorted(calls) and await found(node="other") == []
        assert await found(node="d*") == sorted(calls) == await found(tool="*") and await found(tool="x*") == []
        assert await found(state="parked") == sorted(calls) and await found(state="running") == []
        assert await found(state="stuck") == []


async def test_what_a_walk_found_is_listed_beside_what_is_here_each_call_once() -> None:
    async with engine() as at:
        (here,) = await parked(at, 1)
        gone, stuck, back = summary("g" * 22), summary("s" * 22, attempts=5, tool="killer"), summary(here.call)
        at.runtime.orphan_scan.marked = OrphanCounts(3, 2, 1, calls=(gone, stuck, back))

        async def states(**query: Any) -> dict[str, State]:
            page = await lease_list.leases(at.runtime, LeaseQuery(**query))
            return {item.call_id: item.state for item in page.items}

        assert await states() == {here.call: State.PARKED, gone.call: State.ORPHANED, stuck.call: State.STUCK}
        assert await states(state="orphaned") == {gone.call: State.ORPHANED}
        assert await states(state="stuck") == {stuck.call: State.STUCK}
        assert set(await states(node="gone")) == {gone.call, stuck.call}
        assert set(await states(tool="killer")) == {stuck.call}
        assert set(await states(call="g")) == {gone.call}
        assert set(await states(expiring=1.0)) == set() and gone.call in await states(expiring=600.0)
        assert set(await states(replayed=False)) == {here.call}


# ---- order and pages


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("sort", Sort)
async def test_pages_put_together_are_all_calls_in_order(sort: Sort, descending: bool) -> None:
    async with engine() as at:
        rng = random.Random(7)
        for item in await parked(at, 57):
            slot = at.runtime.table.get(item.call)
            assert slot is not None
            # Many are equal in what they are ordered by.
            slot.size, slot.began = rng.randrange(4) * 100, 1e9 + rng.randrange(4)
            slot.call = replace(slot.call, expires=slot.call.expires // 1 + rng.randrange(4))
        at.runtime.orphan_scan.marked = OrphanCounts(2, 2, calls=(summary("g" * 22), summary("h" * 22)))
        found = await pages(at, sort=sort, descending=descending, limit=10)
        keys = [key(sort, item) for item in found]
        assert len({item.call_id for item in found}) == len(found) == 59
        assert keys == sorted(keys, reverse=descending)


async def test_others_run_while_a_page_is_gathered_and_what_goes_meanwhile_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_list, "PORTION", 10)
    async with engine() as at:
        calls = sorted(item.call for item in await parked(at, 100))
        turns = itertools.count()

        async def others() -> None:
            while True:
                if next(turns) == 5:
                    for call in calls[:30]:
                        slot = at.runtime.table.get(call)
                        assert slot is not None and slot.frame is not None
                        at.runtime.feed(slot, Evict())
                await asyncio.sleep(0)

        running = asyncio.create_task(others())
        page = await lease_list.leases(at.runtime, LeaseQuery(limit=20))
        running.cancel()
        assert next(turns) > 10
        # The page would have begun with those that went: others have their places.
        assert [item.call_id for item in page.items] == calls[30:50]
        rest = await lease_list.leases(at.runtime, LeaseQuery(limit=100, after=page.next))
        assert [item.call_id for item in rest.items] == calls[50:]


async def test_no_call_is_left_out_because_another_one_moved_in_the_order_while_a_page_was_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last call of the page is asked anew, so that its token lasts the longest of all."""
    monkeypatch.setattr(lease_list, "PORTION", 10)
    async with engine() as at:
        made = await parked(at, 40)
        for number, item in enumerate(made):
            slot = at.runtime.table.get(item.call)
            assert slot is not None
            slot.call = replace(slot.call, expires=slot.call.expires + number)
        query = LeaseQuery(sort=Sort.EXPIRES, limit=5)
        gathering = asyncio.create_task(lease_list.leases(at.runtime, query))
        await asyncio.sleep(0)
        slot = at.runtime.table.get(made[4].call)
        assert slot is not None
        slot.call = replace(slot.call, expires=slot.call.expires + 100)
        page = await gathering
        rest = await lease_list.leases(at.runtime, query.model_copy(update={"after": page.next, "limit": 100}))
        assert [item.call_id for item in page.items] == [item.call for item in made[:5]]
        assert [item.call_id for item in rest.items] == [item.call for item in (*made[5:], made[4])]


async def test_a_cursor_of_another_order_is_refused() -> None:
    async with engine() as at:
        await parked(at, 3)
        page = await lease_list.leases(at.runtime, LeaseQuery(limit=2))
        with pytest.raises(ValueError, match="after is not the `next` of a page in this order"):
            await lease_list.leases(at.runtime, LeaseQuery(limit=2, sort=Sort.BEGAN, after=page.next))


async def works(ctx: Context) -> str:
    """Waits in a helper of its own."""
    await _helper()
    return ""


async def _helper() -> None:
    await asyncio.sleep(60)


async def test_where_a_handler_stands_is_said_of_one_call() -> None:
    async with serving(works, unmarked, admin_token=TOKEN) as made, Operator(made.url) as operator:
        running = asyncio.create_task(made.call("works"))
        await until(lambda: any(slot.frame and slot.tool == "works" for slot in made.runtime.table), "it to run")
        await asyncio.sleep(0)
        held = await made.call("unmarked")
        call = next(slot.call.id for slot in made.runtime.table if slot.tool == "works")
        (item,) = (await operator.leases(call=call))["items"]
        *library, helper, outer = item["stands_at"]
        assert [place.rpartition(":")[0] for place in (helper, outer)] == [f"{__name__}:_helper", f"{__name__}:works"]
        assert library[0].startswith("asyncio.tasks:sleep:") and len(library) == 1
        (parked,) = (await operator.leases(call=call_of(held.token)))["items"]
        assert parked["stands_at"][-1].startswith("tests.kit.operators:unmarked:")
        assert all(item["stands_at"] == [] for item in (await operator.leases())["items"])
        running.cancel()
        await asyncio.wait((running,))
