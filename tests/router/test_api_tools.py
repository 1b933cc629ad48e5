"""The tools of a fleet: summed over its nodes, with what was counted lately."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_fleet.identity.trust import Trust
from framehold_fleet.models.history import Sample
from framehold_fleet.models.tools import ToolFigures
from framehold_fleet.telemetry.bounds import ROUND
from framehold_fleet.telemetry.histogram import Tally, quantile
from framehold_router.collect.history import STEP
from framehold_router.collect.samples import packed
from tests.router.cast import NOW, Cast, cast_of, get, said, saying
from tests.router.test_api_calls import ended

pytestmark = pytest.mark.anyio


async def node(cast: Cast, name: str, *tools: dict[str, Any], **more: Any) -> None:
    answer = saying({"node_id": name, "boot": "b", "tools": tools, **more})
    await cast.node(name, saying(said(name)), {"GET /admin/tools": answer})


async def keeps(cast: Cast, seconds_ago: int, **counts: Any) -> None:
    slot = (int(NOW) - seconds_ago) // STEP - 1
    await cast.store.keep_sample(STEP, slot, packed(Sample(tools={"book": ToolFigures(**counts)})), 3600.0)


async def test_tools_are_summed_over_nodes() -> None:
    async with cast_of() as cast:
        pause = {"tool": "ask", "at": NOW, "by": "operator"}
        await node(cast, "a", {"tool": "book", "parked": 2, "oldest": 5.0, "journal": 10})
        book = {"tool": "book", "parked": 1, "oldest": 9.0, "journal": 5}
        await node(cast, "b", {"tool": "ask"}, book, paused=[pause])
        await cast.ended(*(ended(f"{took}", NOW, tool="book", seconds=took) for took in (4.0, 2.0, 1.0)))
        client = await cast.client()
        view = await get(client, "/api/v1/tools")
        assert [tool["tool"] for tool in view["tools"]] == ["ask", "book"] and view["missing"] == []
        ask, book = view["tools"]
        assert ask["paused"]["by"] == "operator" and book["paused"] is None
        assert (book["parked"], book["oldest"], book["journal"]) == (3, 9.0, 15)
        assert (book["call_p50"], book["call_p99"]) == (2.0, 4.0)
        # Nothing was sampled yet.
        assert (book["rounds_per_second"], book["failed_share"], book["p99"]) == (None, None, None)
        one = await get(client, "/api/v1/tools?tool=book")
        assert [tool["tool"] for tool in one["tools"]] == ["book"]
        assert (await get(client, "/api/v1/tools?tool=other"))["tools"] == []


async def test_each_figure_is_of_its_time() -> None:
    """Rounds of a minute, failures of ten, replays of an hour."""
    async with cast_of() as cast:
        await node(cast, "a", {"tool": "book"})
        took = [0] * (len(ROUND) + 1)
        took[4] = 10
        await keeps(cast, 0, asked=30, ended=5, failed=5, took=tuple(took))
        await keeps(cast, 300, ended=7, failed=3, refused=2)
        await keeps(cast, 1200, ended=100, replays=4, thought=(0, 2))
        (book,) = (await get(await cast.client(), "/api/v1/tools"))["tools"]
        assert book["rounds_per_second"] == 4.0
        assert (book["ended"], book["failed"], book["failed_share"], book["refused"]) == (20, 8, 0.4, 2)
        assert (book["replays"], book["think_p50"]) == (4, 3.0)
        assert book["p50"] == pytest.approx(0.0075)
        assert len(book["rounds"]) == 30 and book["rounds"][-1] == 4.0 and book["rounds"][0] is None


async def test_a_node_that_does_not_answer_is_named() -> None:
    async with cast_of() as cast:
        await node(cast, "a", {"tool": "book"})
        await cast.node("old", saying(said("old")))
        await cast.node("other", saying(said("other")), {"GET /admin/tools": saying({"node_id": "z", "boot": "b"})})
        view = await get(await cast.client(), "/api/v1/tools")
        assert ([tool["tool"] for tool in view["tools"]], view["missing"]) == (["book"], ["old", "other"])


async def test_who_waits_and_which_tokens_expire() -> None:
    """A user is a hash, which is the same on all nodes."""
    async with cast_of() as cast:
        book = {"tool": "book", "parked": 3, "expiring": [1, 2]}
        await node(cast, "a", book, {"tool": "idle"}, holders=[{"who": "x", "calls": 2}], over_limit=1)
        others = [{"who": f"y{number}", "calls": 1} for number in range(15)]
        await node(cast, "b", book, holders=[{"who": "x", "calls": 5}, *others], over_limit=2)
        view = await get(await cast.client(), "/api/v1/waiting")
        assert view["tools"] == [{"tool": "book", "expiring": [2, 4, 0, 0, 0, 0, 0]}]
        assert view["holders"][0] == {"who": "x", "calls": 7} and len(view["holders"]) == 10
        assert (view["over_limit"], len(view["bounds"])) == (3, 6)


def test_a_user_has_one_name_in_a_fleet() -> None:
    one, other = Trust([b"k" * 32]), Trust([b"j" * 32])
    assert one.principal("ann") == Trust([b"k" * 32]).principal("ann") != other.principal("ann")
    assert one.principal("ann") != one.principal("bob") and "ann" not in one.principal("ann")
    assert Trust(()).principal("ann") != Trust(()).principal("ann"), "without keys nothing is shared"


def test_a_quantile_lies_in_its_bucket() -> None:
    tally = Tally((1.0, 2.0, 4.0))
    for value in (0.5, 1.5, 1.6, 3.0, 9.0):
        tally.observe(value)
    assert quantile(tally.bounds, tally.counts, 0.2) == 1.0
    assert quantile(tally.bounds, tally.counts, 0.4) == 1.5
    assert quantile(tally.bounds, tally.counts, 0.7) == pytest.approx(3.0)
    assert quantile(tally.bounds, tally.counts, 1.0) == 4.0, "beyond the last bound nothing is known"
    assert quantile(tally.bounds, [0, 0, 0, 0], 0.5) is None
    assert quantile(tally.bounds, (), 0.5) is None
