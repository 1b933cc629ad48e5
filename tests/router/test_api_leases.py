"""Listing calls over HTTP: which nodes are asked what, and what is said of those that don't answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from framehold_fleet.models import paging
from framehold_fleet.models.choices import Sort
from framehold_router.api import leases
from tests.router.cast import Answer, Cast, cast_of, get, member, said, saying
from tests.router.test_api_paging import lease

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with cast_of() as made:
        yield made


async def node(cast: Cast, name: str, answer: Answer, **other: Any) -> None:
    await cast.node(name, saying(said(name)), {"GET /admin/leases": answer}, **other)


event = {"id": "1", "at": 1.0, "kind": "fenced", "text": "so"}


def listing(*calls: str, node: str = "a", total: int | None = None, **more: Any) -> Answer:
    items = [lease(call, node).model_dump(mode="json") for call in calls]
    return saying({"items": items, "total": len(calls) if total is None else total, **more})


async def test_each_node_lists_its_own(cast: Cast) -> None:
    """In one order, with the sum of what there is."""
    await node(cast, "a", listing("2", "4"))
    await node(cast, "b", listing("1", "3", node="b"))
    body = await get(await cast.client(), "/api/v1/leases")
    assert [(item["call_id"], item["node_id"]) for item in body["items"]] == [
        ("1", "b"), ("2", "a"), ("3", "b"), ("4", "a")
    ]  # fmt: skip
    assert (body["total"], body["next"], body["missing"]) == (4, None, [])


async def test_nodes_are_asked_what_was_asked(cast: Cast) -> None:
    """Every filter, the order and the cursor, as the nodes' own query; the format is the router's."""
    await node(cast, "a", listing())
    after = paging.encode(Sort.BEGAN, lease("c", began=5.5))
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
            more = {"next": paging.encode(Sort.CALL, lease(shown[-1], name))} if len(there) > limit else {}
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
        ("sort=began&after=" + paging.encode(Sort.CALL, lease("c")), "after"), ("limit=1&limit=2", "twice"),
    ],
)  # fmt: skip
async def test_a_wrong_query_is_refused_by_name(cast: Cast, query: str, named: str) -> None:
    """No node is asked."""
    await node(cast, "a", listing())
    body = await get(await cast.client(), f"/api/v1/leases?{query}", 400)
    assert named in body["error"]
    assert cast.asked == []


async def hang(_: web.Request) -> web.StreamResponse:
    await asyncio.Event().wait()
    return web.Response()


async def test_nodes_that_do_not_answer_are_named(cast: Cast) -> None:
    """One hangs, one lies, one is not there, one may not be asked: the others' calls are shown."""
    await node(cast, "a", hang)
    await node(cast, "b", saying({"items": [{"call_id": "x"}], "total": 1}))
    cast.members.append(member("c", "http://127.0.0.1:1"))
    cast.members.append(member("d", "nowhere"))
    await node(cast, "e", listing("1", node="e"))
    await node(cast, "f", saying("[" * 100_000))
    body = await get(await cast.client(0.2), "/api/v1/leases")
    assert (len(body["items"]), body["total"], body["missing"]) == (1, 1, ["a", "b", "c", "d", "f"])


async def test_who_answers_for_two_is_heard_once(cast: Cast) -> None:
    """A node that came back by another name at the same address: the lease of its former one is there for a while."""
    await cast.node("a", saying(said("a", fenced=2)), {"GET /admin/leases": listing("1", "2")})
    cast.members.append(member("former", cast.members[0].url))
    client = await cast.client()
    body = await get(client, "/api/v1/leases")
    assert ([item["call_id"] for item in body["items"]], body["total"]) == (["1", "2"], 2)
    assert (await get(client, "/api/v1/failovers"))["fenced"] == 2


async def test_an_answer_without_end_is_cut_off(cast: Cast) -> None:
    """A page of so many calls has so many bytes at most; a page of a thousand real ones passes."""
    full = listing(*(f"{number:032x}" for number in range(1000)))
    await node(cast, "a", full)
    await node(cast, "b", saying({"items": [], "total": 0, "pad": "x" * 400_000}))
    client = await cast.client()
    assert (await get(client, "/api/v1/leases?limit=100"))["missing"] == ["a", "b"]
    body = await get(client, "/api/v1/leases?limit=1000")
    assert (len(body["items"]), body["missing"]) == (1000, [])


async def test_one_nodes_calls(cast: Cast) -> None:
    """It is asked, and the one that looks for orphans, since a former life of it may have left some."""
    for name in ("a", "b", "c"):
        await node(cast, name, listing(name, node=name))
    client = await cast.client()

    async def asked(query: str) -> set[str]:
        cast.asked.clear()
        body = await get(client, f"/api/v1/leases?{query}")
        assert body["missing"] == []
        assert all(request.query["node"] in ("b", "*B*") for request in cast.asked)
        return {
            str(found.node) for found in cast.members for request in cast.asked if str(request.url.port) in found.url
        }

    assert await asked("node=b") == {"a", "b"}
    assert await asked("node=b&state=stuck") == {"a", "b"}
    assert await asked("node=b&state=parked") == {"b"}
    assert await asked("node=*B*&state=parked") == {"b"}


async def test_a_node_that_is_gone(cast: Cast) -> None:
    """Its calls may be marked; what it held, nobody can list."""
    await node(cast, "a", listing())
    client = await cast.client()
    assert (await get(client, "/api/v1/leases?node=gone&state=orphaned"))["missing"] == []
    assert len(cast.asked) == 1
    assert (await get(client, "/api/v1/leases?node=gone&state=parked"))["missing"] == ["gone"]


async def test_a_crowd_with_one_question_is_one(cast: Cast) -> None:
    """Nodes are asked once for all of it, and another question is another."""
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
    """In a header, with the same filters; and who is missing."""
    after = paging.encode(Sort.CALL, lease("2"))
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
