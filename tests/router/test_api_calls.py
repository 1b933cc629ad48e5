"""Listing ended calls, which nodes write to the store; and the tools of a fleet, summed over its nodes."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_core.errors import ConfigError, StoreUnavailable
from framehold_fleet.identity.trust import Trust
from framehold_fleet.models import paging
from framehold_fleet.models.calls import EndedCallView
from framehold_fleet.models.choices import Sort
from framehold_fleet.models.fields import matches
from framehold_fleet.models.history import Sample
from framehold_fleet.models.tools import ToolFigures
from framehold_fleet.telemetry.bounds import ROUND
from framehold_fleet.telemetry.histogram import Tally, quantile
from framehold_router.collect import shared_look
from framehold_router.collect.history import STEP
from framehold_router.collect.samples import packed
from framehold_router.config import RouterSettings
from framehold_store.base import MAX_EVENTS
from tests.router.cast import NOW, Cast, get, said, saying
from tests.router.test_api_leases import lease


def ended(call: str, at: float, node: str = "a", outcome: str = "completed", **more: Any) -> EndedCallView:
    fields = {"tool": "t", "rounds": 1, "reentrant": True, "began": at - 1, "ended": at, "seconds": 1.0}
    return EndedCallView.model_validate({"call_id": call, "node_id": node, "outcome": outcome, **fields, **more})


@pytest.mark.parametrize("turned", [False, True])
async def test_the_newest_come_first_also_of_nodes_that_are_gone(cast: Cast, turned: bool) -> None:
    """A call that diverged on one node, and ended on another, which has its code, is listed as it ended last, in
    whatever order their entries come."""
    ends = [ended("1", NOW - 15, "a", "diverged"), ended("1", NOW, "b"), ended("2", NOW - 20)]
    failed = ended("3", NOW - 10, "gone", "tool_error", error="KeyError", place="shop:pay:7")
    await cast.ended(*(reversed(ends) if turned else ends), failed)
    body = await get(await cast.client(), "/api/v1/calls?facets=true")
    assert [(item["call_id"], item["node_id"], item["outcome"]) for item in body["items"]] == [
        ("1", "b", "completed"), ("3", "gone", "tool_error"), ("2", "a", "completed")
    ]  # fmt: skip
    assert (body["items"][1]["error"], body["items"][1]["place"]) == ("KeyError", "shop:pay:7")
    assert (body["total"], body["next"], body["stale"]) == (3, None, False)
    assert body["facets"]["outcome"] == {"completed": 2, "tool_error": 1}


async def test_good_calls_do_not_drive_out_bad_ones_and_none_stays_for_longer_than_an_hour(cast: Cast) -> None:
    await cast.ended(ended("bad", NOW - 60, outcome="lost"), ended("old", NOW - 3601, outcome="lost"))
    await cast.store.append_events([b"", b"{}", b"[]"], "ended")
    good = (ended(f"{number}", NOW - 1).model_dump_json().encode() for number in range(10_000))
    await cast.store.append_events([*good], "ended")
    client = await cast.client()
    failed, every = [await get(client, f"/api/v1/calls?{query}") for query in ("failed=true", "limit=1")]
    assert ([item["call_id"] for item in failed["items"]], every["total"]) == (["bad"], MAX_EVENTS + 1)


async def test_a_silent_store_takes_nothing_back_and_is_said(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_look, "FRESH", 0.0)
    await cast.ended(ended("1", NOW))
    client = await cast.client()
    assert (await get(client, "/api/v1/calls"))["total"] == 1

    async def silent(*args: object) -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(cast.store, "events", silent)
    body = await get(client, "/api/v1/calls")
    assert (body["total"], body["stale"]) == (1, True)
    async with client.get("/api/v1/calls?format=csv") as response:
        assert response.headers["Stale"] == "true"


@pytest.mark.parametrize(
    ("query", "named"),
    [("outcome=good", "outcome"), ("failed=perhaps", "failed"), ("sort=tool", "sort"), ("limit=0", "limit"),
     ("after=x", "after"), ("state=parked", "state"),
     ("after=" + paging.encode(paging.key(Sort.CALL, lease("c"))), "after")],
)  # fmt: skip
async def test_a_wrong_query_is_refused_by_name(cast: Cast, query: str, named: str) -> None:
    body = await get(await cast.client(), f"/api/v1/calls?{query}", 400)
    assert named in body["error"]


async def test_filters_order_and_pages(cast: Cast) -> None:
    made = [ended(f"c{n}", NOW - n, f"{'ab'[n % 2]}", ("completed", "lost")[n % 2], seconds=9.0 - n) for n in range(5)]
    await cast.ended(*made, ended("d9", NOW - 9, "a", tool="u", seconds=3.0))
    client = await cast.client()

    async def ids(query: str) -> list[str]:
        return [item["call_id"] for item in (await get(client, f"/api/v1/calls?{query}"))["items"]]

    assert await ids("failed=true") == await ids("outcome=lost") == await ids("node=b") == ["c1", "c3"]
    assert await ids("call=d") == await ids("tool=U*") == ["d9"]
    assert await ids("node=gone") == []
    assert await ids("sort=seconds&descending=false") == ["d9", "c4", "c3", "c2", "c1", "c0"]
    for order in ("", "sort=seconds&descending=false&"):
        paged, query = list[str](), f"{order}limit=2"
        while query:
            page = await get(client, f"/api/v1/calls?{query}")
            paged += [item["call_id"] for item in page["items"]]
            query = f"{order}limit=2&after={page['next']}" if page["next"] else ""
        assert (paged, page["total"]) == (await ids(order), 6)


async def test_counts_of_what_another_filter_would_list(cast: Cast) -> None:
    ends = (("a", "fine", "completed"), ("a", "pay", "tool_error"), ("b", "pay", "tool_error"), ("b", "plain", "lost"))
    await cast.ended(*(ended(f"{n}", NOW, node, how, tool=tool) for n, (node, tool, how) in enumerate(ends)))
    client = await cast.client()

    async def facets(query: str = "") -> Any:
        return (await get(client, f"/api/v1/calls?facets=true{query}"))["facets"]

    ends_, tools = {"tool_error": 2, "completed": 1, "lost": 1}, {"pay": 2, "fine": 1, "plain": 1}
    assert await facets() == {"outcome": ends_, "tool": tools, "node": {"a": 2, "b": 2}}
    assert next(iter((await facets())["tool"])) == "pay"
    assert await facets("&failed=true") == {"outcome": ends_, "tool": {"pay": 2, "plain": 1}, "node": {"b": 2, "a": 1}}
    one = {"outcome": {"completed": 1, "tool_error": 1}, "tool": {"fine": 1, "pay": 1}, "node": {"a": 2, "b": 2}}
    assert await facets("&node=a") == one
    assert (await get(client, "/api/v1/calls"))["facets"] is None


@pytest.mark.parametrize(
    ("url", "trace", "address"),
    [("https://t/{trace_id}?x", "0af7", "https://t/0af7?x"), ("", "0af7", ""), ("https://t/{trace_id}", "", "")],
)
async def test_the_address_of_a_trace(cast: Cast, url: str, trace: str, address: str) -> None:
    """One that leads to no trace is refused by its name."""
    cast.more["trace_url"] = url
    await cast.ended(ended("1", NOW, trace_id=trace))
    body = await get(await cast.client(), "/api/v1/calls")
    assert [item["trace_url"] for item in body["items"]] == [address]
    for wrong in ("jaeger", "http://127.0.0.1/trace", "ftp://127.0.0.1/{trace_id}"):
        with pytest.raises(ConfigError, match=r"trace_url is wrong: .*\{trace_id\}"):
            RouterSettings(trace_url=wrong)
    assert RouterSettings(trace_url="http://127.0.0.1/{trace_id}").trace_url


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("pay", ["pay"]), ("PAY", []), ("pay*", ["pay", "pay.b?[x]"]), ("*B?[X]", ["pay.b?[x]"]), ("p?y*", []),
        ("*", ["pay", "pay.b?[x]"]), ("[p]*", []), ("", []),
    ],
)  # fmt: skip
def test_names_that_a_filter_matches(wanted: str, found: list[str]) -> None:
    """`*` stands for any text, and each other sign for itself."""
    assert not matches("*a" * 90 + "b", "a" * 180), "a pattern that backtracks would not come to an end"
    assert [name for name in ("pay", "pay.b?[x]") if matches(wanted, name)] == found


async def node(cast: Cast, name: str, *tools: dict[str, Any], **more: Any) -> None:
    answer = saying({"node_id": name, "boot": "b", "tools": tools, **more})
    await cast.node(name, saying(said(name)), {"GET /admin/tools": answer})


async def keeps(cast: Cast, seconds_ago: int, **counts: Any) -> None:
    slot = (int(NOW) - seconds_ago) // STEP - 1
    await cast.store.keep_sample(STEP, slot, packed(Sample(tools={"book": ToolFigures(**counts)})), 3600.0)


async def test_tools_are_summed_over_nodes(cast: Cast) -> None:
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


async def test_each_figure_is_of_its_time(cast: Cast) -> None:
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


async def test_a_node_that_does_not_answer_is_named(cast: Cast) -> None:
    await node(cast, "a", {"tool": "book"})
    await cast.node("old", saying(said("old")))
    await cast.node("other", saying(said("other")), {"GET /admin/tools": saying({"node_id": "z", "boot": "b"})})
    view = await get(await cast.client(), "/api/v1/tools")
    assert ([tool["tool"] for tool in view["tools"]], view["missing"]) == (["book"], ["old", "other"])


async def test_who_waits_and_which_tokens_expire(cast: Cast) -> None:
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
    assert quantile(tally.bounds, (*tally.counts, 0, 3), 1.0) == 4.0, "a newer release may have further bounds"
