"""Cursors, and the merging of nodes' pages into one."""

from __future__ import annotations

import random
from base64 import urlsafe_b64encode
from typing import Any

import pytest

from framehold_fleet.models import paging
from framehold_fleet.models.calls import LeaseQuery, LeasesView, LeaseView
from framehold_fleet.models.choices import Sort, State
from framehold_router.api.leases import merge


def lease(call: str, node: str = "a", state: str = "parked", epoch: int = 1, **other: object) -> LeaseView:
    fields = {"tool": "t", "reentrant": True, "round": 1}
    return LeaseView.model_validate(
        {"call_id": call, "node_id": node, "state": state, "epoch": epoch, **fields, **other}
    )


@pytest.mark.parametrize("sort", Sort)
def test_a_cursor_is_read_back(sort: Sort) -> None:
    """Whatever the calls are sorted by; what is missing counts as 0; and it fits a query."""
    for item in (lease("c" * 36), lease("d", began=1.5, expires=2**53, journal_bytes=7), lease("\u00e4" * 200)):
        text = paging.encode(sort, item)
        assert paging.decode(text, sort) == paging.decode(text) == paging.key(sort, item)
    assert LeaseQuery(after=paging.encode(sort, lease("c" * 36))).after


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


def test_a_cursor_of_another_order_is_refused() -> None:
    """A number can't be compared with an id."""
    with pytest.raises(ValueError, match="in this order"):
        paging.decode(paging.encode(Sort.CALL, lease("c")), Sort.BEGAN)
    with pytest.raises(ValueError, match="in this order"):
        paging.decode(paging.encode(Sort.BEGAN, lease("c")), Sort.CALL)


def page_of(items: list[LeaseView], query: LeaseQuery) -> LeasesView:
    """What a node answers: the slow and obvious way."""
    ordered = sorted(items, key=lambda item: paging.key(query.sort, item), reverse=query.descending)
    if query.after is not None:
        after = paging.decode(query.after)
        keys = [(paging.key(query.sort, item), item) for item in ordered]
        ordered = [item for place, item in keys if (place < after if query.descending else place > after)]
    shown = ordered[: query.limit]
    follows = paging.encode(query.sort, shown[-1]) if len(ordered) > len(shown) else None
    return LeasesView(items=shown, total=len(items), next=follows)


def through(nodes: list[list[LeaseView]], query: LeaseQuery) -> list[LeaseView]:
    """All pages, one after the other."""
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
@pytest.mark.parametrize("seed", range(5))
def test_all_pages_together_are_all_calls_in_order(sort: Sort, descending: bool, seed: int) -> None:
    """Each once, also where values are equal, nodes have none, and some calls stand with two nodes."""
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


def test_nothing_anywhere() -> None:
    assert (
        merge([], LeaseQuery()) == merge([LeasesView(items=[], total=0)], LeaseQuery()) == LeasesView(items=[], total=0)
    )
