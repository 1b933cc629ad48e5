"""Listing calls: cursors, the merging of nodes' pages into one, and what is said of nodes that don't answer."""

from __future__ import annotations

import asyncio
import random
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from framehold_fleet.members.membership import STRANGE
from framehold_fleet.models import paging
from framehold_fleet.models.calls import LeaseQuery, LeasesView, LeaseView
from framehold_fleet.models.choices import Sort, State
from framehold_router.api import leases
from framehold_router.api.leases import merge
from tests.router.cast import Answer, Cast, get, hang, member, said, saying


def lease(call: str, node: str = "a", state: str = "parked", epoch: int = 1, **other: object) -> LeaseView:
    fields = {"tool": "t", "reentrant": True, "round": 1}
    return LeaseView.model_validate(
        {"call_id": call, "node_id": node, "state": state, "epoch": epoch, **fields, **other}
    )


@pytest.mark.parametrize("sort", Sort)
def test_a_cursor_is_read_back(sort: Sort) -> None:
    for item in (lease("c" * 36), lease("d", began=1.5, expires=2**53, journal_bytes=7), lease("\u00e4" * 200)):
        text = paging.encode(paging.key(sort, item))
        assert paging.decode(text, sort) == paging.decode(text) == paging.key(sort, item)
        with pytest.raises(ValueError, match="in this order"):
            paging.decode(text, Sort.BEGAN if sort is Sort.CALL else Sort.CALL)
    assert LeaseQuery(after=paging.encode(paging.key(sort, lease("c" * 36)))).after


def cursor(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "text",
    ["", "?", "%%%", "AAAA", cursor("[]"), cursor("{}"), cursor("[1]"), cursor("[1,2]"), cursor('[null,"c"]'),
     cursor('[true,"c"]'), cursor('[NaN,"c"]'), cursor('[1e999,"c"]'), cursor('[9007199254740993,"c"]'),
     cursor('[1,"c",3]'), cursor("[" * 5000), "\u00e4", "\ud800", cursor('[' + "9" * 5000 + ',"c"]')],
)  # fmt: skip
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="begin with the first page"):
        paging.decode(text)


def page_of(items: list[LeaseView], query: LeaseQuery) -> LeasesView:
    ordered = sorted(items, key=lambda item: paging.key(query.sort, item), reverse=query.descending)
    if query.after is not None:
        after = paging.decode(query.after)
        keys = [(paging.key(query.sort, item), item) for item in ordered]
        ordered = [item for place, item in keys if (place < after if query.descending else place > after)]
    shown = ordered[: query.limit]
    follows = paging.encode(paging.key(query.sort, shown[-1])) if len(ordered) > len(shown) else None
    return LeasesView(items=shown, total=len(items), next=follows)


def through(nodes: list[list[LeaseView]], query: LeaseQuery) -> list[LeaseView]:
    found: list[LeaseView] = []
    for _ in range(1000):
        page = merge([page_of(items, query) for items in nodes], query)
        assert len(page.items) <= query.limit
        found += page.items
        if page.next is None:
            return found
        query = query.model_copy(update={"after": page.next})
    raise AssertionError("there is no end to it")


@pytest.mark.parametrize("sort", Sort)
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_all_pages_together_are_all_calls_in_order(sort: Sort, descending: bool, seed: int) -> None:
    draw = random.Random(seed)
    calls = [f"{draw.getrandbits(128):032x}" for _ in range(200)]
    nodes: list[list[LeaseView]] = [[] for _ in range(4)]
    latest = {}
    for call in calls:
        for epoch, node in enumerate(draw.sample(range(3), draw.choice([1, 1, 1, 2, 3])), 1):
            values: dict[str, Any] = {name: draw.choice([None, 1, 2, 3.5]) for name in ("began", "expires")}
            item = lease(call, str(node), epoch=epoch, journal_bytes=draw.choice([None, 5]), **values)
            nodes[node].append(item)
            latest[call] = item
    query = LeaseQuery(sort=sort, descending=descending, limit=draw.choice([1, 7, 50, 1000]))
    found = through(nodes, query)
    shown = [item.call_id for item in found]
    # A call whose two listings differ in what is sorted by may be seen on two pages; never twice on one, or by its id.
    assert {(item.call_id, item.epoch) for item in latest.values()} <= {(item.call_id, item.epoch) for item in found}
    assert len(set(shown)) == len(calls)
    assert sort is not Sort.CALL or len(shown) == len(calls)
    keys = [paging.key(sort, item) for item in found]
    assert keys == sorted(keys, reverse=descending)


@pytest.mark.parametrize("moved", range(3))
def test_no_call_is_left_out_because_one_moved_in_the_order_while_its_node_gathered_its_page(moved: int) -> None:
    """A page is shown as it stands at its end; its cursor is where the node goes on."""
    query = LeaseQuery(sort=Sort.EXPIRES, limit=3)
    nodes = [[lease(f"a{n}", expires=10 * n) for n in range(1, 6)], [lease("b", "b", expires=45)]]
    pages = [page_of(items, query) for items in nodes]
    ahead = pages[0].items[moved].model_copy(update={"expires": 99})
    pages[0].items[moved] = ahead
    nodes[0][moved] = ahead
    first = merge(pages, query)
    rest = through(nodes, query.model_copy(update={"after": first.next}))
    assert sorted({item.call_id for item in (*first.items, *rest)}) == sorted(
        item.call_id for items in nodes for item in items
    )


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("others", [0, 1, 9])
def test_a_cursor_never_goes_back_and_leaves_out_no_call_that_stayed(others: int, descending: bool, limit: int) -> None:
    """All calls of a node's page were answered meanwhile, so that they lie before the page."""
    step, after = (-10, (510.0, "z")) if descending else (10, (490.0, "z"))
    query = LeaseQuery(sort=Sort.EXPIRES, descending=descending, limit=limit, after=paging.encode(after))
    nodes = [[lease(f"{node}{n}", node, expires=500 + step * n) for n in range(count)]
             for node, count in (("a", 5), ("b", others))]  # fmt: skip
    pages = [page_of(items, query) for items in nodes]
    moved = [item.model_copy(update={"expires": 500 - 9 * step}) for item in pages[0].items]
    pages[0] = pages[0].model_copy(update={"items": moved})
    nodes[0][:limit] = moved
    first = merge(pages, query)
    assert first.next is not None
    place = paging.decode(first.next)
    assert place <= after if descending else place >= after
    found = [*first.items, *through(nodes, query.model_copy(update={"after": first.next}))]
    stayed = [item.call_id for items in (nodes[0][limit:], nodes[1]) for item in items]
    assert sorted({item.call_id for item in found}) == sorted([*(item.call_id for item in moved), *stayed])


def test_a_node_whose_cursor_is_none_ends_its_page_with_its_last_call() -> None:
    pages = [LeasesView(items=[lease("a"), lease("b")], total=3, next="?"), LeasesView(items=[lease("c")], total=1)]
    found = merge(pages, LeaseQuery())
    assert ([item.call_id for item in found.items], paging.decode(found.next or "")) == (["a", "b"], ("b", "b"))


def test_a_call_that_runs_is_not_shown_as_orphaned() -> None:
    """The mark is older than the node's own word; of two owners the later epoch is right."""
    pages = [
        LeasesView(items=[lease("c", state="orphaned", epoch=2), lease("d", state="stuck")], total=2),
        LeasesView(items=[lease("c", "b", epoch=2), lease("e", "b", epoch=1)], total=2),
        LeasesView(items=[lease("e", "f", epoch=3)], total=1),
    ]
    found = merge(pages, LeaseQuery())
    assert [(item.call_id, item.node_id, item.state) for item in found.items] == [
        ("c", "b", State.PARKED), ("d", "a", State.STUCK), ("e", "f", State.PARKED)
    ]  # fmt: skip
    assert (found.total, found.next) == (3, None)
    assert merge([], LeaseQuery()) == merge([LeasesView(items=[], total=0)], LeaseQuery())


async def node(cast: Cast, name: str, answer: Answer, **other: Any) -> None:
    await cast.node(name, saying(said(name)), {"GET /admin/leases": answer}, **other)


def listing(*calls: str, node: str = "a", total: int | None = None, **more: Any) -> Answer:
    items = [lease(call, node).model_dump(mode="json") for call in calls]
    return saying({"items": items, "total": len(calls) if total is None else total, **more})


async def test_each_node_lists_its_own(cast: Cast) -> None:
    """In one order, with the sum of what there is. Who answers for two, as a node that came back by another name does
    for a while, is heard once."""
    await cast.node("a", saying(said("a", fenced=2)), {"GET /admin/leases": listing("2", "4")})
    cast.members.append(member("former", cast.members[0].url))
    await node(cast, "b", listing("1", "3", node="b"))
    client = await cast.client()
    body = await get(client, "/api/v1/leases")
    assert [(item["call_id"], item["node_id"]) for item in body["items"]] == [
        ("1", "b"), ("2", "a"), ("3", "b"), ("4", "a")
    ]  # fmt: skip
    assert (body["total"], body["next"], body["missing"]) == (4, None, [])
    assert (await get(client, "/api/v1/failovers"))["fenced"] == 2


async def test_nodes_are_asked_what_was_asked(cast: Cast) -> None:
    await node(cast, "a", listing())
    after = paging.encode(paging.key(Sort.BEGAN, lease("c", began=5.5)))
    query = (
        f"state=parked&expiring=60&replayed=true&tool=a%26b%C3%A4&call=ab&sort=began&descending=1&limit=7&after={after}"
    )
    await get(await cast.client(), f"/api/v1/leases?{query}&format=json")
    [request] = cast.asked
    assert dict(request.query) == {
        "state": "parked", "expiring": "60.0", "replayed": "true", "tool": "a&b\u00e4", "call": "ab", "sort": "began",
        "descending": "true", "limit": "7", "after": after,
    }  # fmt: skip


async def test_many_nodes_are_asked_for_a_part_of_a_long_page(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,000 calls of each of 100 nodes would take 180 MB. What a page leaves out is on the next ones."""
    monkeypatch.setattr(leases, "MAX_ITEMS", 4)
    monkeypatch.setattr(leases, "_FEWEST", 1)
    held = {"a": ["1", "2", "3", "4", "5"], "b": ["6"]}

    def page_of(name: str) -> Answer:
        async def answer(request: web.Request) -> web.StreamResponse:
            after, limit = request.query.get("after"), int(request.query["limit"])
            there = [call for call in held[name] if after is None or call > paging.decode(after)[1]]
            shown = there[:limit]
            more = {"next": paging.encode(paging.key(Sort.CALL, lease(shown[-1], name)))} if len(there) > limit else {}
            return await listing(*shown, node=name, total=len(there), **more)(request)

        return answer

    for name in held:
        await node(cast, name, page_of(name))
    client, listed, after = await cast.client(), list[str](), ""
    while True:
        body = await get(client, f"/api/v1/leases?limit=5{after}")
        listed += [item["call_id"] for item in body["items"]]
        if body["next"] is None:
            break
        after = f"&after={body['next']}"
    assert listed == ["1", "2", "3", "4", "5", "6"]
    assert {request.query["limit"] for request in cast.asked} == {"2"}


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("state=happy", "state"), ("expiring=0", "expiring"), ("expiring=nan", "expiring"),
        ("expiring=inf", "expiring"),
        ("replayed=perhaps", "replayed"), ("sort=age", "sort"), ("limit=0", "limit"), ("limit=1001", "limit"),
        ("limit=ten", "limit"), ("descending=maybe", "descending"), ("after=x", "after"), ("colour=red", "colour"),
        (f"after={'A' * 500}", "after"), (f"tool={'t' * 300}", "tool"), ("format=xml", "format"),
        ("sort=began&after=" + paging.encode(paging.key(Sort.CALL, lease("c"))), "after"), ("limit=1&limit=2", "twice"),
    ],
)  # fmt: skip
async def test_a_wrong_query_is_refused_by_name(cast: Cast, query: str, named: str) -> None:
    await node(cast, "a", listing())
    body = await get(await cast.client(), f"/api/v1/leases?{query}", 400)
    assert named in body["error"]
    assert cast.asked == []


async def test_nodes_that_do_not_answer_are_named(cast: Cast) -> None:
    await node(cast, "a", hang)
    await node(cast, "b", saying({"items": [{"call_id": "x"}], "total": 1}))
    cast.members += [member("c", "http://127.0.0.1:1"), member("d", "nowhere")]
    await node(cast, "e", listing("1", node="e"))
    await node(cast, "f", saying("[" * 100_000))
    body = await get(await cast.client(0.2), "/api/v1/leases")
    assert (len(body["items"]), body["total"], body["missing"]) == (1, 1, ["a", "b", "c", "d", "f"])


async def test_an_answer_without_end_is_cut_off(cast: Cast) -> None:
    full = listing(*(f"{number:032x}" for number in range(1000)))
    await node(cast, "a", full)
    await node(cast, "b", saying({"items": [], "total": 0, "pad": "x" * 400_000}))
    client = await cast.client()
    assert (await get(client, "/api/v1/leases?limit=100"))["missing"] == ["a", "b"]
    body = await get(client, "/api/v1/leases?limit=1000")
    assert (len(body["items"]), body["missing"]) == (1000, [])


@pytest.mark.parametrize(
    ("query", "asked", "missing"),
    [
        ("node=b", "ab", []), ("node=b&state=stuck", "ab", []), ("node=b&state=parked", "b", []),
        ("node=*B*&state=parked", "b", []), ("node=gone&state=orphaned", "a", []),
        ("node=gone&state=parked", "", ["gone"]),
    ],
)  # fmt: skip
async def test_one_nodes_calls(cast: Cast, query: str, asked: str, missing: list[str]) -> None:
    """It is asked, and the one that looks for orphans, since a former life of it may have left some. What a node held
    that is gone, nobody can list. A node with other keys, whose name comes first, looks for none."""
    for name in ("a", "b", "c"):
        await node(cast, name, listing(name, node=name))
    cast.members.append(member("0", "http://127.0.0.1:1", STRANGE)._replace(address=None))
    assert (await get(await cast.client(), f"/api/v1/leases?{query}"))["missing"] == missing
    names = {URL(found.url).port: found.node for found in cast.members}
    assert {names[request.url.port] for request in cast.asked} == set(asked)
    assert all(request.query["node"] == query.partition("&")[0][5:] for request in cast.asked)


async def test_a_crowd_with_one_question_is_one(cast: Cast) -> None:
    go, came = asyncio.Event(), asyncio.Event()

    async def wait(request: web.Request) -> web.StreamResponse:
        came.set()
        await go.wait()
        return await listing("1")(request)

    await node(cast, "a", wait)
    client = await cast.client(10.0)
    readers = [asyncio.create_task(get(client, "/api/v1/leases")) for _ in range(5)]
    other = asyncio.create_task(get(client, "/api/v1/leases?limit=5"))
    await came.wait()
    while len(cast.asked) < 2:
        await asyncio.sleep(0)
    go.set()
    bodies = await asyncio.gather(*readers, other)
    assert all(body["total"] == 1 for body in bodies)
    assert len(cast.asked) == 2


async def test_csv_says_where_the_next_page_is(cast: Cast) -> None:
    after = paging.encode(paging.key(Sort.CALL, lease("2")))
    await node(cast, "a", listing("1", "2", total=9, next=after))
    cast.members.append(member("d/\u00e4", "nowhere"))
    client = await cast.client()
    async with client.get("/api/v1/leases?format=csv&limit=2&tool=a%20b") as response:
        link, missing, text = response.headers["Link"], response.headers["Missing-Nodes"], await response.text()
    assert missing == "d%2F%C3%A4"
    assert text.splitlines()[1].startswith("1,t,")
    target = link.removeprefix("<").partition(">")[0]
    assert link.endswith('; rel="next"')
    await get(client, target)
    assert cast.asked[-1].query["after"] == after
    assert cast.asked[-1].query["tool"] == "a b"
