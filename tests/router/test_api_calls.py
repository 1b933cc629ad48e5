"""Listing ended calls over HTTP: each node lists its own, and the router merges them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from framehold_router.api import paging
from framehold_router.models.calls import EndedCallView
from framehold_router.models.choices import CallSort, Sort
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
