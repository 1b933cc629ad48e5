"""How much of each limit is used, what fills first, and whether the fleet can lose its fullest node."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_fleet.models.history import Figures, Sample
from framehold_fleet.models.nodes import NodeView
from framehold_router.api import capacity
from framehold_store.base import MemoryUse
from tests.router.cast import cast_of, get, said, saying


def node(name: str, frames: int | None, busy: float | None = None, **more: Any) -> NodeView:
    """A node that may hold 100 frames."""
    known: dict[str, Any] = {"incarnation": "i", "boot": "b", "address": "", "state": "live", "max_parked": 100, **more}
    return NodeView(node_id=name, frames=frames, loop_busy=busy, **known)


def test_the_fullest_node_decides_what_fills_first() -> None:
    view = capacity.of([node("a", 10, 0.2), node("b", 30, 0.6), node("c", 20, 0.1)])
    frames, processor = view.resources
    assert (frames.name, frames.used, frames.limit, frames.share) == ("frames", 60, 300, 0.2)
    assert (frames.fullest, frames.fullest_share, frames.without_fullest) == ("b", 0.3, 0.3)
    assert (processor.name, processor.fullest, processor.fullest_share) == ("processor", "b", 0.6)
    assert processor.without_fullest == pytest.approx(0.45)
    assert (view.nodes, view.fills_first, view.survives) == (3, "processor", True)


SPENT = node("a", 1, descriptors=59, descriptors_limit=60)
LOSSES: dict[str, tuple[list[NodeView], MemoryUse | None, str, float | None, bool | None]] = {
    "80 and 40 frames are more than one node may hold": ([node("a", 80), node("b", 40)], None, "frames", 1.2, False),
    "nobody takes over": ([node("a", 80), node("b", 10, state="draining")], None, "frames", None, None),
    "descriptors": ([SPENT, node("b", 3)], None, "descriptors", None, True),
    # It belongs to no node: the loss of a node frees nothing of it.
    "the store": ([node("a", 1), node("b", 3)], MemoryUse(90, 100), "store", None, True),
}


@pytest.mark.parametrize(("nodes", "use", "first", "without", "survives"), LOSSES.values(), ids=LOSSES)
def test_the_loss_of_the_fullest_node(
    nodes: list[NodeView], use: MemoryUse | None, first: str, without: float | None, survives: bool | None
) -> None:
    view = capacity.of(nodes, use)
    assert (view.fills_first, view.survives, view.resources[-1].name) == (first, survives, first)
    assert view.resources[-1].without_fullest == without


def test_what_is_not_measured_does_not_count() -> None:
    older = node("old", None, max_parked=None)
    view = capacity.of([node("a", 1, rss=50, memory_limit=None), node("b", 3, rss=50, memory_limit=200), older])
    assert [(found.name, found.fullest, found.limit) for found in view.resources] == [
        ("frames", "b", 200),
        ("memory", "b", 200),
    ]
    empty = capacity.of([])
    assert (empty.nodes, empty.resources, empty.fills_first, empty.survives) == (0, [], None, None)


async def test_the_page_and_its_rows() -> None:
    async with cast_of() as cast:
        await cast.node("a", saying({**said("a"), "frames": 5, "max_parked": 50}))
        client = await cast.client()
        result = await get(client, "/api/v1/capacity")
        assert (result["nodes"], result["resources"][0]["share"], result["survives"]) == (1, 0.1, None)
        rows = await get(client, "/api/v1/capacity?format=csv")
        assert rows.splitlines()[1].startswith("frames,5.0,50.0,0.1,a,0.1,")


def hour(*frames: int) -> list[Sample]:
    """Node a has so many frames in each slot, node b always 5."""
    return [Sample(nodes={"a": Figures(frames=count), "b": Figures(frames=5)}) for count in frames]


def test_what_grows_is_full_at_a_time() -> None:
    nodes = [node("a", 80), node("b", 5)]
    view = capacity.of(nodes, samples=hour(*range(20, 80)))
    assert view.resources[0].full_in == pytest.approx(200.0)
    assert capacity.of(nodes, samples=hour(*([80] * 60))).resources[0].full_in is None, "it does not grow"
    assert capacity.of(nodes, samples=hour(*range(80, 20, -1))).resources[0].full_in is None
    assert capacity.of(nodes, samples=hour(*range(59))).resources[0].full_in is None, "too little is known"
    slow = capacity.of(nodes, samples=hour(*([79] * 300), *([80] * 60)))
    assert slow.resources[0].full_in is not None and slow.resources[0].full_in > 3600
    gaps = [sample if index % 2 else None for index, sample in enumerate(hour(*range(200)))]
    assert capacity.of([node("a", 100)], samples=gaps).resources[0].full_in == 0.0
