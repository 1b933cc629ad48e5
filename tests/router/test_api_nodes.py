"""Nodes that departed, the ring by its arcs, and the profile of one node."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_core.ids import NodeId
from framehold_fleet.members import node_stats
from framehold_fleet.members.node_stats import Stats
from framehold_fleet.members.ring import SPACE, Ring
from framehold_router.api import fleet
from tests.router.cast import NOW, Answer, Cast, get, hang, member, said, saying

CALLS = [f"{number:032x}" for number in range(300)]


async def departs(
    cast: Cast, name: str, ago: float, boot: str = "b", left: bool = False, parked: int | None = None
) -> None:
    at = {"last_heartbeat": NOW - ago - 5, "detected": NOW - ago}
    await cast.logs(end={"node_id": name, "boot": boot, "state": "live", "left": left, "calls": parked, **at})


async def departed(cast: Cast) -> Any:
    return (await get(await cast.client(), "/api/v1/nodes"))["departed"]


async def test_who_departed_is_told_beside_who_is_there(cast: Cast) -> None:
    await cast.node("a", saying(said("a")))
    await departs(cast, "x", 100, left=True, parked=0)
    await departs(cast, "y", 10, parked=7)
    await departs(cast, "z", 50)
    assert await departed(cast) == [
        {"node_id": name, "boot": "b", "how": how, "last_heartbeat": NOW - ago - 5, "detected": NOW - ago,
         "calls": calls, "store": None}
        for name, how, ago, calls in (("y", "lost", 10, 7), ("z", "lost", 50, None), ("x", "left", 100, 0))
    ]  # fmt: skip
    assert (await get(await cast.client(), "/api/v1/overview"))["nodes"] == {"live": 1}


async def test_who_has_a_lease_has_not_departed(cast: Cast) -> None:
    for name, state in (("a", "live"), ("b", "draining"), ("c", "other keys")):
        cast.members.append(member(name, f"http://127.0.0.1:1/{name}", state))
        await departs(cast, name, 10, boot="b1")
        await departs(cast, name, 20, boot="b2")
    await departs(cast, "d", 30, boot="b1")
    await departs(cast, "d", 20, boot="b2")
    assert [(item["node_id"], item["boot"]) for item in await departed(cast)] == [("d", "b2"), ("d", "b1")]


async def test_departures_are_told_for_an_hour_and_a_hundred_of_them(cast: Cast) -> None:
    await departs(cast, "old", fleet.HOUR + 1)
    await departs(cast, "recent", fleet.HOUR - 1)
    assert [item["node_id"] for item in await departed(cast)] == ["recent"]
    for number in range(150):
        await departs(cast, f"n{number}", number)
    assert [item["node_id"] for item in await departed(cast)] == [f"n{number}" for number in range(100)]


async def ring(cast: Cast, query: str = "?arcs=true") -> Any:
    return await get(await cast.client(), f"/api/v1/ring{query}")


def on(cast: Cast, *names: str) -> None:
    cast.members = [member(name, f"http://{name}:1") for name in names]


async def test_arcs_are_told_to_who_asks(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    """All or none: more than anybody sees are not."""
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
    for most, told in ((len(starts), len(starts)), (len(starts) - 1, 0)):
        monkeypatch.setattr(fleet, "MAX_ARCS", most)
        assert len((await ring(cast))["arcs"]) == told


async def test_a_call_lies_on_the_arc_of_its_node(cast: Cast) -> None:
    on(cast, *(f"n{number}" for number in range(5)))
    result, client = await ring(cast), await cast.client()
    for call in CALLS[:20]:
        async with client.post("/api/v1/lookup", json={"token": f"h1.{call}.sealed"}) as response:
            found = await response.json()
        arc = max(arc["start"] for arc in result["arcs"] if arc["start"] <= found["position"])
        [index] = [item["node"] for item in result["arcs"] if item["start"] == arc]
        assert result["nodes"][index]["node_id"] == found["ring_node"]


def test_arcs_close_behind_the_last_point() -> None:
    """What lies there belongs to the first, and so does what lies before it; a point is the start of the next one's."""
    places = {"on": SPACE // 4, "before": 5, "behind": SPACE - SPACE // 4}

    def place(text: str) -> int:
        return places.get(text, SPACE // 4 if text.startswith("a-") else SPACE // 2)

    made = Ring([NodeId("a"), NodeId("b")], place)
    assert list(made.arcs()) == [(0.0, "a"), (0.25, "b"), (0.5, "a")]
    assert (list(Ring([NodeId("a")]).arcs()), list(Ring([]).arcs())) == ([(0.0, "a")], [])
    assert [(made.position(key), made.owner(key)) for key in ("on", "behind")] == [(0.25, "b"), (0.75, "a")]


MEMORY = {
    "resident": 100, "limit": 1000, "start": 60, "high": 900,
    "parts": [{"name": "frames", "bytes": 40, "count": 2, "estimated": True}],
}  # fmt: skip
TOOLS = [{"tool": "book", "frames": 2, "bytes": 40, "journal_bytes": 7, "parked": 1, "running": 1}]
PROFILE = {"node_id": "a", "memory": MEMORY, "tools": TOOLS, "sessions": 3}
NOTHING: dict[str, Any] = {"memory": None, "tools": [], "sessions": None}
PATH = "GET /admin/profile"


async def asked(cast: Cast, status: int = 200, name: str = "a", **client: Any) -> Any:
    return await get(await cast.client(**client), f"/api/v1/nodes/{name}", status)


async def test_a_node_is_shown_as_it_says_it_is(cast: Cast) -> None:
    tools = [{**TOOLS[0], "tool": "\u202e" * 201}]
    answer = {**PROFILE, "tools": tools, "more": "of a newer release"}
    await cast.node("a", saying(said("a", rss=100)), {PATH: saying(answer)})
    await cast.node("b", saying(said("b")))
    result = await asked(cast)
    assert (result["node"]["node_id"], result["node"]["rss"], result["node"]["state"]) == ("a", 100, "live")
    cut = [{**TOOLS[0], "tool": "\u202e" * 200}]
    assert result == {"node": result["node"], "memory": MEMORY, "tools": cut, "sessions": 3}
    assert [request.path for request in cast.asked].count("/admin/profile") == 1


async def test_a_node_of_an_older_release_is_shown_without_a_profile(cast: Cast) -> None:
    await cast.node("a", saying(said("a")))
    result = await asked(cast)
    assert result == {"node": result["node"], **NOTHING} and result["node"]["state"] == "live"


@pytest.mark.parametrize("name", ["a", "%3Cscript%3E", "%00", "..%2F..", "x" * 500, "%ED%A0%80"])
async def test_a_node_that_is_not_there_is_not_found(cast: Cast, name: str) -> None:
    await cast.node("b", saying(said("b")))
    result = await asked(cast, 404, name)
    assert result["error"].startswith("no node of this name has a lease; see `nodes`")
    assert "script" not in result["error"]


UNREAD = "did not say where its memory goes (its answer can't be read)"
WRONG = {
    "it refuses": (saying({"error": "not you"}, 403), "did not say where its memory goes (it answered HTTP 403)"),
    "it failed": (saying("broken", 500), "did not say where its memory goes (it answered HTTP 500)"),
    "no JSON": (saying("<html>"), UNREAD),
    "another kind of answer": (saying({"node_id": 5}), UNREAD),
    "a size below none": (saying({**PROFILE, "memory": {**MEMORY, "resident": -1}}), UNREAD),
    "a number that is none": (saying('{"node_id": "a", "memory": {"resident": NaN, "start": 1}}'), UNREAD),
    "too long": (saying({**PROFILE, "more": "x" * 200_000}), UNREAD),
    "another node at its address": (saying({**PROFILE, "node_id": "z"}), "has another node at its address"),
}


@pytest.mark.parametrize(("answer", "why"), WRONG.values(), ids=WRONG)
async def test_what_can_not_be_read_is_no_answer(cast: Cast, answer: Answer, why: str) -> None:
    await cast.node("a", saying(said("a")), {PATH: answer})
    result = await asked(cast, 502)
    assert result["error"].startswith(f"node a {why}: `nodes` has its last heartbeat")


async def test_a_node_is_named_alike_whether_it_answers_or_its_lease_alone_is_read(cast: Cast) -> None:
    """A lease keeps less of a long name: two nodes of one server are not taken for two servers."""
    long: dict[str, Any] = {name: f"{name} " + "\u00e4x" * 100 for name in ("server", "version", "tools_digest")}
    leased = node_stats.read(Stats(pid=1, **long).dump())
    await cast.node("a", saying(said("a", **long)), stats=leased)
    cast.members.append(member("b", "http://127.0.0.1:1", stats=leased))
    async with cast.survey(1.0) as survey:
        one, other = await survey.nodes()
    assert (one.unanswered, other.unanswered is None) == (None, False)
    assert {name: getattr(one, name) for name in long} == {name: getattr(other, name) for name in long}


async def test_a_node_that_does_not_answer_is_said_not_to(cast: Cast) -> None:
    await cast.node("a", saying(said("a")), {PATH: hang})
    assert "node a did not say where its memory goes (" in (await asked(cast, 502, limit=0.2))["error"]
    cast.members[:] = [member("a", "http://127.0.0.1:9")]
    assert "node a did not say where its memory goes (" in (await asked(cast, 502))["error"]
