"""Nodes that departed, and the ring by its arcs: where a call lies, and whose that place is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from framehold_core.ids import NodeId
from framehold_fleet.members.ring import POINTS, SPACE, Ring
from framehold_fleet.models.nodes import NodesView
from framehold_router.api import fleet
from tests.router.cast import NOW, Cast, cast_of, get, member, said, saying

pytestmark = pytest.mark.anyio

CALLS = [f"{number:032x}" for number in range(300)]


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with cast_of() as made:
        yield made


async def departs(
    cast: Cast, name: str, ago: float, boot: str = "b", left: bool = False, parked: int | None = None
) -> None:
    at = {"last_heartbeat": NOW - ago - 5, "detected": NOW - ago}
    await cast.logs(end={"node_id": name, "boot": boot, "state": "live", "left": left, "calls": parked, **at})


async def departed(cast: Cast) -> Any:
    return (await get(await cast.client(), "/api/v1/nodes"))["departed"]


# ---- nodes that departed


async def test_who_departed_is_told_beside_who_is_there(cast: Cast) -> None:
    """How, when, and how many calls it had; the newest first. Counts are of who is there."""
    await cast.node("a", saying(said("a")))
    await departs(cast, "x", 100, left=True, parked=0)
    await departs(cast, "y", 10, parked=7)
    await departs(cast, "z", 50)
    assert await departed(cast) == [
        {
            "node_id": name,
            "boot": "b",
            "how": how,
            "last_heartbeat": NOW - ago - 5,
            "detected": NOW - ago,
            "calls": calls,
            "store": None,
        }
        for name, how, ago, calls in (("y", "lost", 10, 7), ("z", "lost", 50, None), ("x", "left", 100, 0))
    ]
    assert (await get(await cast.client(), "/api/v1/overview"))["nodes"] == {"live": 1}


async def test_who_has_a_lease_has_not_departed(cast: Cast) -> None:
    """By whatever boot, and even where it does not answer, or has other keys."""
    for name, state in (("a", "live"), ("b", "draining"), ("c", "other keys")):
        cast.members.append(member(name, f"http://127.0.0.1:1/{name}", state))
        await departs(cast, name, 10, boot="b1")
        await departs(cast, name, 20, boot="b2")
    await departs(cast, "d", 30, boot="b1")
    await departs(cast, "d", 20, boot="b2")
    assert [(item["node_id"], item["boot"]) for item in await departed(cast)] == [("d", "b2"), ("d", "b1")]


async def test_departures_are_told_for_an_hour_and_a_hundred_of_them(cast: Cast) -> None:
    """However many there were."""
    await departs(cast, "old", fleet.HOUR + 1)
    await departs(cast, "recent", fleet.HOUR - 1)
    assert [item["node_id"] for item in await departed(cast)] == ["recent"]
    for number in range(150):
        await departs(cast, f"n{number}", number)
    assert [item["node_id"] for item in await departed(cast)] == [f"n{number}" for number in range(100)]


def test_an_older_router_tells_of_none() -> None:
    """A command of this release reads what it says."""
    assert NodesView.model_validate({"nodes": []}).departed == []


# ---- arcs


async def ring(cast: Cast, query: str = "?arcs=true") -> Any:
    return await get(await cast.client(), f"/api/v1/ring{query}")


def on(cast: Cast, *names: str) -> None:
    cast.members = [member(name, f"http://{name}:1") for name in names]


async def test_arcs_are_told_to_who_asks(cast: Cast) -> None:
    """In order from 0 on, neighbours of different nodes, each as long as shares say; a draining node has none."""
    on(cast, "b", "c", "a")
    cast.members.append(member("aa", "http://aa:1", "draining"))
    for query in ("", "?arcs=false"):
        assert (await ring(cast, query))["arcs"] == []
    result = await ring(cast)
    starts = [arc["start"] for arc in result["arcs"]]
    assert starts[0] == 0.0 and starts == sorted(set(starts)) and starts[-1] < 1.0
    assert all(one["node"] != other["node"] for one, other in zip(result["arcs"], result["arcs"][1:], strict=False))
    lengths = dict.fromkeys(range(4), 0.0)
    for arc, end in zip(result["arcs"], [*starts[1:], 1.0], strict=True):
        lengths[arc["node"]] += end - arc["start"]
    assert [lengths[number] for number in range(4)] == pytest.approx([node["share"] for node in result["nodes"]])
    assert [node["node_id"] for node in result["nodes"]] == ["a", "aa", "b", "c"] and lengths[1] == 0


async def test_a_call_lies_on_the_arc_of_its_node(cast: Cast) -> None:
    """Look-up and ring agree, for any call."""
    on(cast, *(f"n{number}" for number in range(5)))
    result, client = await ring(cast), await cast.client()
    for call in CALLS[:20]:
        async with client.post("/api/v1/lookup", json={"token": f"h1.{call}.sealed"}) as response:
            found = await response.json()
        arc = max(arc["start"] for arc in result["arcs"] if arc["start"] <= found["position"])
        [index] = [item["node"] for item in result["arcs"] if item["start"] == arc]
        assert result["nodes"][index]["node_id"] == found["ring_node"]


async def test_what_names_no_call_lies_nowhere(cast: Cast) -> None:
    """And where there is no node a call has a place all the same."""
    client = await cast.client()
    for token, nowhere in ((f"h1.{CALLS[0]}.x", False), ("s1.sealed", True), ("l1.n.b1.id", True), ("other", True)):
        async with client.post("/api/v1/lookup", json={"token": token}) as response:
            assert ((await response.json())["position"] is None) is nowhere, token


async def test_more_arcs_than_anybody_sees_are_not_told(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or none."""
    on(cast, "a", "b")
    count = len((await ring(cast))["arcs"])
    for most, result in ((count, count), (count - 1, 0)):
        monkeypatch.setattr(fleet, "MAX_ARCS", most)
        assert len((await ring(cast))["arcs"]) == result


def test_a_ring_of_one_node_is_one_arc() -> None:
    assert list(Ring([NodeId("a")]).arcs()) == [(0.0, "a")]
    assert list(Ring([]).arcs()) == []


def test_arcs_close_behind_the_last_point() -> None:
    """What lies there belongs to the first, and so does what lies before it; a point is the start of the next one's."""
    places = {"on": SPACE // 4, "before": 5, "behind": SPACE - SPACE // 4}

    def place(text: str) -> int:
        return places.get(text, SPACE // 4 if text.startswith("a-") else SPACE // 2)

    made = Ring([NodeId("a"), NodeId("b")], place)
    assert list(made.arcs()) == [(0.0, "a"), (0.25, "b"), (0.5, "a")]
    assert [(made.position(key), made.owner(key)) for key in ("on", "behind")] == [(0.25, "b"), (0.75, "a")]


def test_arcs_are_what_the_ring_says() -> None:
    """For many calls, and so many nodes that there are many points."""
    made = Ring([NodeId(f"n{number}") for number in range(30)])
    arcs = list(made.arcs())
    assert POINTS < len(arcs) <= made.points + 1
    for call in CALLS:
        position = made.position(call)
        assert [node for start, node in arcs if start <= position][-1] == made.owner(call)
