"""A node's death as one story, from what several nodes and this router saw; and the fleet at a glance."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_core.ids import Boot, NodeId
from framehold_fleet.models.nodes import NodeView
from framehold_router.api.overview import Rates
from tests.router.cast import NOW, Cast, get, said, saying


def takeover(
    call: str, asked: float, *times: float | None, node: str = "z", to: str = "a", **other: Any
) -> dict[str, Any]:
    """`times` are when it was claimed, replayed and resumed, in seconds after NOW - 100."""
    named = dict(zip(("claimed", "replayed", "resumed"), times, strict=False))
    fields = {"call": call, "tool": "t", "reason": "died", "from_node": node, "from_boot": "b1"}
    fields |= {"to_node": to, "to_boot": "b-lease"}
    at = {name: None if time is None else NOW - 100 + time for name, time in {"asked": asked, **named}.items()}
    return fields | at | {"epoch": 2, "outcome": "recovered"} | other


def event(number: int, at: float, node: str = "a", kind: str = "takeover") -> dict[str, Any]:
    return {"id": str(number), "at": at, "node_id": node, "kind": kind, "text": f"event {number}"}


async def node(cast: Cast, name: str, *takeovers: Any, events: Any = (), **other: Any) -> None:
    await cast.node(name, saying(said(name, **other)))
    for takeover in takeovers:
        await cast.logs(takeover=takeover)
    for event in events:
        await cast.logs(event=event)


async def saw(cast: Cast, node: str, heartbeat: float, detected: float, left: bool = False) -> None:
    at = {"last_heartbeat": NOW - 100 + heartbeat, "detected": NOW - 100 + detected}
    await cast.logs(end={"node_id": node, "boot": "b1", "incarnation": "i1", "state": "live", "left": left, **at})


async def failovers(cast: Cast) -> Any:
    return await get(await cast.client(), "/api/v1/failovers")


async def test_the_story_of_a_death(cast: Cast) -> None:
    await node(cast, "a", takeover("c1", 5, 6, 7, 9), takeover("c2", 4, 5, None, None, outcome="under way"), fenced=2)
    await node(cast, "b", takeover("c3", 4.5, 5, 6, 7, to="b"), takeover("c4", 20, outcome="lost"), fenced=3)
    await saw(cast, "z", 0, 3)
    body = await failovers(cast)
    [found] = body["failovers"]
    assert body["fenced"] == 5
    assert [call["call"] for call in found["calls"]] == ["c4", "c1", "c3", "c2"]
    assert (found["node_id"], found["boot"], found["reason"]) == ("z", "b1", "died")
    times = {name: found[name] - NOW + 100 for name in ("last_heartbeat", "detected", "claimed", "replayed", "resumed")}
    assert times == {"last_heartbeat": 0, "detected": 3, "claimed": 5, "replayed": 6, "resumed": 7}
    assert found["durations"] == {"detect": 3, "claim": 2, "replay": 1, "resume": 1, "total": 7}
    counts = {name: found[name] for name in ("recovered", "lost", "stuck", "failed", "under_way")}
    assert counts == {"recovered": 2, "lost": 1, "stuck": 0, "failed": 0, "under_way": 1}


CALL = takeover("c1", 5, 6, 7, 9)
BACK = [takeover(f"r{n}", 20, 21, 22, 23, reason="restarted", to="z") for n in range(3)]
STUCK = [
    takeover(call, at, outcome="stuck", to=to) for call, at, to in (("c1", 5, "a"), ("c1", 9, "b"), ("c2", 12, "b"))
]
STORIES: dict[str, tuple[list[Any], tuple[float, float] | None, dict[str, Any]]] = {
    "not seen by this router: the claim is counted from the retry": (
        [CALL], None,
        {"last_heartbeat": None, "detected": None, "durations": {"claim": 1, "replay": 1, "resume": 2}},
    ),
    "claimed before this router looked": (
        [CALL], (1, 6.5), {"durations": {"detect": 5.5, "claim": 1, "replay": 1, "resume": 2, "total": 8}},
    ),
    "clocks that disagree: what would be negative is left out": (
        [takeover("c1", 5, 2, 7, 6)], (1, 3), {"durations": {"detect": 2, "replay": 5, "total": 5}},
    ),
    "nobody came back": ([], (80, 83), {"durations": {"detect": 3.0}, "calls": []}),
    "killed while it drained": (
        [CALL, takeover("c2", 1, 2, 3, 4, reason="released")], (0, 3), {"planned": False, "recovered": 2},
    ),
    "stuck on several nodes": (STUCK, None, {"stuck": 2}),
    "most calls went on in its next life: the reason is that of the first": (
        [CALL, *BACK], (0, 3), {"reason": "died", "resumed": NOW - 91, "recovered": 4},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("takeovers", "seen", "wanted"), STORIES.values(), ids=STORIES)
async def test_one_failover(
    cast: Cast, takeovers: list[Any], seen: tuple[float, float] | None, wanted: dict[str, Any]
) -> None:
    await node(cast, "a", *takeovers)
    if seen is not None:
        await saw(cast, "z", *seen)
    [found] = (await failovers(cast))["failovers"]
    assert {name: found[name] for name in wanted} == wanted
    assert (await get(await cast.client(), "/api/v1/overview"))["failovers_last_hour"] == 1


async def test_many_calls_of_several_nodes(cast: Cast) -> None:
    await node(cast, "a", *(takeover(f"c{n}", n + 60, n + 60) for n in range(300)), takeover("d1", 1, 2, node="y"))
    await saw(cast, "z", 80, 83)
    await saw(cast, "x", 80, 83, left=True)
    first, second = (await failovers(cast))["failovers"]
    assert (first["recovered"], len(first["calls"]), first["calls"][0]["call"]) == (300, 100, "c299")
    assert (first["node_id"], second["node_id"], second["durations"]) == ("z", "y", {"claim": 1.0})


async def test_other_outcomes_and_reasons(cast: Cast) -> None:
    await node(
        cast,
        "a",
        *(takeover(f"c{n}", n, outcome=name) for n, name in enumerate(("diverged", "unreadable", "failed", "stuck"))),
        takeover("d1", 1, node="d", reason="released"),
        takeover("e1", 1, node="a", reason="evicted"),
    )
    found = {item["node_id"]: item for item in (await failovers(cast))["failovers"]}
    assert set(found) == {"z", "d"}
    assert (found["z"]["failed"], found["z"]["stuck"], found["d"]["reason"]) == (3, 1, "released")


async def test_a_drain_is_a_hand_off_and_no_failover(cast: Cast) -> None:
    """Its calls went on, however early: their time is counted from the retry, since nobody waited for a lease."""
    calls = [takeover(f"c{n}", 5 + n, 5.1 + n, 5.2 + n, 5.3 + n, reason="released") for n in range(2)]
    await node(cast, "a", *calls, takeover("c9", 20, outcome="lost"))
    await saw(cast, "z", 8, 9, left=True)
    [found] = (await failovers(cast))["failovers"]
    assert (found["planned"], found["reason"], found["recovered"], found["lost"]) == (True, "released", 2, 1)
    assert found["durations"]["total"] == pytest.approx(0.3) and "detect" not in found["durations"]
    overview = await get(await cast.client(), "/api/v1/overview")
    assert overview["failovers_last_hour"] == 0


async def test_a_process_that_came_back_with_all_its_calls_failed_over_to_nobody(cast: Cast) -> None:
    """Its lease ran out while the store was full; it is a failover where another node took a call meanwhile."""
    await node(cast, "a")
    await saw(cast, "z", 0, 3)
    cast.members.append(cast.members[0]._replace(node=NodeId("z"), boot=Boot("b1")))
    assert (await failovers(cast))["failovers"] == []
    await cast.logs(takeover=takeover("c1", 5, 6, 7, 9))
    assert [found["node_id"] for found in (await failovers(cast))["failovers"]] == ["z"]


async def test_the_overview(cast: Cast) -> None:
    figures = {"orphaned": 2, "stuck": 1, "resume_p50": 0.2, "resume_p99": 0.5, "store_seconds": 0.01}
    fails = {"tool": "t", "ended": 4, "failed": 1}
    recent, old = takeover("c1", 90, 91, 92, 93), takeover("c2", -7200, node="y")
    await node(cast, "a", recent, old, events=[event(n, NOW + n) for n in range(30)], failing=[fails], **figures)
    paused = {"tool": "book", "at": NOW, "by": "framehold", "why": "it ends its processes"}
    await node(cast, "b", resume_p50=0.4, resume_p99=0.1, store_seconds=0.03, state="draining", paused=[paused])
    cast.members.append(cast.members[0]._replace(node=NodeId("c"), address=None, url="nowhere"))
    body = await get(await cast.client(), "/api/v1/overview")
    assert [item["id"] for item in body["events"]] == [str(n) for n in range(29, 9, -1)]
    assert [problem["kind"] for problem in body["problems"]] == ["calls_stuck", "tool_paused", "node_unreachable"]
    assert (body["resume_p50"], body["store_seconds"]) == (pytest.approx(0.3), pytest.approx(0.02))
    assert body["open"]["held"]["count"] == 12 + 13 + 12 + 13 + 2 + 3
    wanted = {
        "at": NOW, "nodes": {"live": 1, "draining": 1, "unreachable": 1}, "parked": 12 + 12 + 2,
        "in_flight": 13 + 13 + 3, "orphaned": 2, "stuck": 1, "rounds_per_second": None, "routers": [],
        "resume_p99": 0.5, "affinity": None, "failovers_last_hour": 1, "ended": 0, "failed": 0, "failing": [fails],
        "store": "answers", "store_used": None, "store_limit": None, "paused": [paused],
    }  # fmt: skip
    assert {name: body[name] for name in wanted} == wanted


async def test_takeovers_of_single_calls_push_nothing_out_of_the_overview(cast: Cast) -> None:
    about = {"kind": "takeover", "text": "node z is gone"}
    many = [{"id": f"{n}", "at": NOW + n / 100, "node_id": "ab"[n % 2], "call": f"c{n}", **about} for n in range(40)]
    for item in (*many, {**many[0], "id": "w", "call": "", "count": 272, "text": "272 more likewise, within 1 s"}):
        await cast.logs(event=item)
    await cast.logs(event={**many[0], "id": "old", "at": NOW - 60})
    await cast.logs(event={"id": "lost", "at": NOW - 1, "node_id": "z", "kind": "node_lost", "text": "lost"})
    one, lost, old = (await get(await cast.client(), "/api/v1/overview"))["events"]
    assert one["text"] == "312 such events, at a, b; of the last call: node z is gone"
    assert (one["count"], one["node_id"], one["call"], one["at"]) == (312, "", "", NOW + 0.39)
    assert (lost["id"], old["id"], old["call"]) == ("lost", "old", "c0")


class Retries:
    hits = misses = 0


def counted(name: str, boot: str, rounds: int | None) -> NodeView:
    return NodeView(node_id=name, incarnation="i", boot=boot, state="live", rounds=rounds, address="")


def test_rates_are_differences() -> None:
    """A node that began anew counts from 0 again, one that is new counts from when it was first seen."""
    now, retries = [0.0], Retries()
    rates = Rates(lambda: now[0], retries)  # type: ignore[arg-type]  # of a meter it reads these two counts
    assert (rates.rounds_per_second(), rates.affinity()) == (None, None)
    rates.note([counted("a", "1", 1000), counted("old", "1", None)])
    assert rates.rounds_per_second() is None, "nothing was seen twice"
    now[0], retries.hits, retries.misses = 10.0, 9, 1
    rates.note([counted("a", "1", 1100), counted("b", "1", 5000)])
    assert (rates.rounds_per_second(), rates.affinity()) == (10.0, 0.9)
    now[0] = 20.0
    rates.note([counted("a", "2", 3), counted("b", "1", 5100)])
    assert rates.rounds_per_second() == 10.0
    now[0] = 70.0
    rates.note([counted("a", "2", 63), counted("b", "1", 5100)])
    assert rates.rounds_per_second() == pytest.approx((100 + 60) / 60), "the last minute alone"
    assert rates.affinity() is None, "no retry in it"


def test_rates_are_of_no_longer_time_than_they_say() -> None:
    """After a day without a look nothing is known of the last minute, until the next look."""
    now, retries = [0.0], Retries()
    rates = Rates(lambda: now[0], retries)  # type: ignore[arg-type]  # of a meter it reads these two counts
    rates.note([counted("a", "1", 0)])
    now[0], retries.hits = 86_400.0, 8
    rates.note([counted("a", "1", 86_400)])
    assert (rates.rounds_per_second(), rates.affinity()) == (None, None)
    now[0], retries.hits, retries.misses = 86_402.0, 9, 1
    rates.note([counted("a", "1", 86_420)])
    assert (rates.rounds_per_second(), rates.affinity()) == (10.0, 0.5)


def test_a_survey_that_ends_behind_a_later_one_counts_no_round_twice() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0], None)
    for now[0], rounds in ((0.0, 1000), (5.0, 1500), (5.1, 1000), (10.0, 1600)):
        rates.note([counted("a", "1", rounds)])
    assert rates.rounds_per_second() == 60.0


def test_rates_keep_a_bounded_number_of_everything() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0], None)
    for number in range(3000):
        now[0] += 0.5
        rates.note([counted(f"n{number}", "b", 1)])
    assert len(rates._seen) <= 122
    assert len(rates._last) <= 1000
