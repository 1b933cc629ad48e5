"""Listing ended calls over HTTP: each node lists its own, and the router merges them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from framehold_core.errors import ConfigError
from framehold_router.api import paging
from framehold_router.config import RouterSettings, read
from framehold_router.models.calls import EndedCallView
from framehold_router.models.choices import CallSort, Sort
from framehold_router.models.fields import matches
from tests.router.cast import Answer, Cast, cast_of, get, said, saying
from tests.router.test_api_paging import lease

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with cast_of() as made:
        yield made


def ended(call: str, at: float, node: str = "a", outcome: str = "completed", **more: Any) -> EndedCallView:
    fields = {"tool": "t", "rounds": 1, "reentrant": True, "began": at - 1, "ended": at, "seconds": 1.0}
    return EndedCallView.model_validate({"call_id": call, "node_id": node, "outcome": outcome, **fields, **more})


def listing(*items: EndedCallView, total: int | None = None, following: str | None = None) -> Answer:
    shown = [item.model_dump(mode="json") for item in items]
    return saying({"items": shown, "total": len(shown) if total is None else total, "next": following})


async def node(cast: Cast, name: str, answer: Answer) -> None:
    await cast.node(name, saying(said(name)), {"GET /admin/calls": answer})


async def test_the_newest_come_first_whichever_node_they_ended_on(cast: Cast) -> None:
    await node(cast, "a", listing(ended("1", 30.0), ended("2", 10.0)))
    await node(cast, "b", listing(ended("3", 20.0, "b", "tool_error", error="KeyError", place="shop:pay:7")))
    body = await get(await cast.client(), "/api/v1/calls")
    assert [(item["call_id"], item["outcome"]) for item in body["items"]] == [
        ("1", "completed"), ("3", "tool_error"), ("2", "completed")
    ]  # fmt: skip
    assert (body["items"][1]["error"], body["items"][1]["place"]) == ("KeyError", "shop:pay:7")
    assert (body["total"], body["next"], body["missing"]) == (3, None, [])


async def test_a_call_that_ended_twice_is_listed_as_it_ended_last(cast: Cast) -> None:
    """It diverged on one node, and another, which has its code, went on."""
    await node(cast, "a", listing(ended("1", 10.0, "a", "diverged")))
    await node(cast, "b", listing(ended("1", 20.0, "b")))
    body = await get(await cast.client(), "/api/v1/calls")
    assert [(item["node_id"], item["outcome"]) for item in body["items"]] == [("b", "completed")]
    assert body["total"] == 1


async def test_nodes_are_asked_what_was_asked(cast: Cast) -> None:
    await node(cast, "a", listing())
    after = paging.encode(CallSort.SECONDS, ended("c", 9.0))
    query = f"failed=true&outcome=lost&tool=t&call=ab&sort=seconds&descending=false&limit=7&after={after}"
    await get(await cast.client(), f"/api/v1/calls?{query}&format=json")
    [request] = cast.asked
    assert dict(request.query) == {
        "failed": "true", "outcome": "lost", "tool": "t", "call": "ab", "sort": "seconds", "descending": "false",
        "limit": "7", "after": after,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "named"),
    [("outcome=good", "outcome"), ("failed=perhaps", "failed"), ("sort=tool", "sort"), ("limit=0", "limit"),
     ("after=x", "after"), ("state=parked", "state"), ("after=" + paging.encode(Sort.CALL, lease("c")), "after")],
)  # fmt: skip
async def test_a_wrong_query_is_refused_by_name(cast: Cast, query: str, named: str) -> None:
    """No node is asked."""
    await node(cast, "a", listing())
    body = await get(await cast.client(), f"/api/v1/calls?{query}", 400)
    assert named in body["error"] and cast.asked == []


async def test_one_node_by_its_name_and_those_that_do_not_answer(cast: Cast) -> None:
    """A node of an earlier release does not know the list: it is named, and the others' calls are shown."""
    await node(cast, "a", listing(ended("1", 10.0)))
    await cast.node("older", saying(said("older")))
    client = await cast.client()
    body = await get(client, "/api/v1/calls")
    assert ([item["call_id"] for item in body["items"]], body["missing"]) == (["1"], ["older"])
    body = await get(client, "/api/v1/calls?node=a")
    assert ([item["call_id"] for item in body["items"]], body["missing"]) == (["1"], [])
    assert (await get(client, "/api/v1/calls?node=gone"))["missing"] == ["gone"]


async def test_pages_follow_each_other(cast: Cast) -> None:
    """The cursor of the router is that of the nodes."""
    first, second = ended("1", 30.0), ended("2", 20.0)
    await node(cast, "a", listing(first, total=2, following=paging.encode(CallSort.ENDED, first)))
    await node(cast, "b", listing(ended("3", 10.0, "b")))
    body = await get(await cast.client(), "/api/v1/calls?limit=1")
    assert [item["call_id"] for item in body["items"]] == ["1"]
    assert (
        paging.decode(body["next"], CallSort.ENDED)
        == paging.key(CallSort.ENDED, first)
        > paging.key(CallSort.ENDED, second)
    )


async def test_counts_by_outcome_tool_and_node(cast: Cast) -> None:
    """Those of all nodes, the most first. A filter by node narrows the list, and every node is asked for its counts."""
    await node(cast, "a", saying({"items": [], "total": 3, "facets": {"tool": {"t": 1, "u": 2}, "node": {"a": 3}}}))
    await node(cast, "b", saying({"items": [], "total": 4, "facets": {"tool": {"t": 4}, "node": {"b": 4}}}))
    await node(cast, "older", listing())
    client = await cast.client()
    body = await get(client, "/api/v1/calls?facets=true&node=a")
    assert list(body["facets"]["tool"].items()) == [("t", 5), ("u", 2)]
    assert (body["facets"]["node"], body["facets"]["outcome"]) == ({"b": 4, "a": 3}, {})
    assert all(request.query["facets"] == "true" for request in cast.asked) and len(cast.asked) == 3
    assert (await get(client, "/api/v1/calls"))["facets"] is None


async def test_nodes_by_a_part_of_their_names(cast: Cast) -> None:
    for name in ("web-1", "web-2", "job-1"):
        await node(cast, name, listing(ended(name, 10.0, name)))
    client = await cast.client()
    body = await get(client, "/api/v1/calls?node=Web*")
    assert ({item["call_id"] for item in body["items"]}, body["missing"]) == ({"web-1", "web-2"}, [])
    assert (await get(client, "/api/v1/calls?node=x*"))["missing"] == ["x*"]


@pytest.mark.parametrize(
    ("url", "trace", "address"),
    [("https://t/{trace_id}?x", "0af7", "https://t/0af7?x"), ("", "0af7", ""), ("https://t/{trace_id}", "", "")],
)
async def test_the_address_of_a_trace(cast: Cast, url: str, trace: str, address: str) -> None:
    cast.more["trace_url"] = url
    await node(cast, "a", listing(ended("1", 10.0, trace_id=trace)))
    body = await get(await cast.client(), "/api/v1/calls")
    assert [item["trace_url"] for item in body["items"]] == [address]


@pytest.mark.parametrize("wrong", ["jaeger", "http://127.0.0.1/trace", "ftp://127.0.0.1/{trace_id}"])
def test_an_address_that_leads_to_no_trace_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(ConfigError, match=r"FRAMEHOLD_TRACE_URL is wrong: .*\{trace_id\}"):
        read(RouterSettings, trace_url=wrong)
    assert read(RouterSettings, trace_url="http://127.0.0.1/{trace_id}").trace_url


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
