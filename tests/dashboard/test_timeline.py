"""A call's trail as the timeline draws it: what was where from when to when, and where that is on the line."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest

from framehold_router.dashboard import ASSETS
from tests.conformance import node_cache

pytestmark = pytest.mark.browser

_RUN = """
import {{ readFileSync }} from "node:fs";
const {{ story }} = await import("{lib}/trail.js");
const {{ described, stepped }} = await import("{lib}/telling.js");
const {{ timescale }} = await import("{lib}/timescale.js");
const given = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({expression}));
"""
T = 1_000_000.0
STEPS = ("parked", "claimed", "verified", "healed", "released", "finished", "lost")


@pytest.fixture(scope="module", autouse=True)
def _node() -> None:
    node_cache.ensure(300)


def of(expression: str, given: object) -> Any:
    """What the page's own modules make of `given`."""
    code = _RUN.format(lib=f"file://{ASSETS}/lib", expression=expression)
    command = [str(node_cache.NODE), "--input-type=module", "--experimental-default-type=module", "-e", code]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def step(name: str, round_: int, epoch: int, node: str, at: float, ran: float = 0.0) -> dict[str, Any]:
    return {"step": name, "round": round_, "epoch": epoch, "node_id": node, "at": T + at, "ran": ran}


def view(*trail: dict[str, Any], record: str = "open", live: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"trail": trail, "record": record, "cause": "", "created": T, "live": live}


def held(node: str, state: str = "parked", **more: Any) -> dict[str, Any]:
    return {"node_id": node, "state": state, "round": 1, "epoch": 1, "began": T, "resumed": None, **more}


def event(kind: str, node: str, at: float) -> dict[str, Any]:
    return {"kind": kind, "node_id": node, "at": T + at, "call": "", "epoch": None}


def tale(seen: dict[str, Any], now: float, *events: dict[str, Any]) -> dict[str, Any]:
    """What is drawn, with each span and mark in words too."""
    made = """((tale) => ({...tale, said: [...tale.spans, ...tale.marks].map(described)}))(story(given[0], given[1]))"""
    result: dict[str, Any] = of(made, [seen, {"now": T + now, "events": events, "departed": []}])
    return result


def spans(story: dict[str, Any]) -> list[tuple[str, str, float, float]]:
    """Each as what it is, its node, and its ends."""
    found = [(one["what"], one["node"], one["from"] - T, one["to"] - T) for one in story["spans"]]
    return sorted(found, key=lambda one: one[2])


PARKED = step("parked", 1, 1, "a", 1, 1)
ROUND = ("round", "a", 0, 1)
STUCK = view(PARKED, step("claimed", 1, 2, "b", 11), step("claimed", 1, 3, "c", 21)) | {"outcome": "stuck"}
TALES: dict[str, tuple[dict[str, Any], float, list[dict[str, Any]], list[tuple[str, str, float, float]]]] = {
    "the same node enters it again": (
        view(PARKED, step("claimed", 1, 2, "a", 5), live=held("a", "running")),
        6,
        [],
        [ROUND, ("parked", "a", 1, 5), ("round", "a", 5, 6)],
    ),
    "nobody holds it, since when is not known": (view(PARKED), 9, [], [ROUND, ("unheld", "a", 1, 9)]),
    "evicted": (view(PARKED), 9, [event("evicted", "a", 4)], [ROUND, ("parked", "a", 1, 4), ("unheld", "a", 4, 9)]),
    "its node lost": (
        view(PARKED),
        9,
        [event("node_lost", "a", 4)],
        [ROUND, ("parked", "a", 1, 4), ("unheld", "a", 4, 9)],
    ),
    "another node lost": (view(PARKED), 9, [event("node_lost", "b", 4)], [ROUND, ("unheld", "a", 1, 9)]),
    "handed off": (
        view(PARKED, step("released", 1, 1, "a", 3), record="released"),
        9,
        [],
        [ROUND, ("parked", "a", 1, 3), ("unheld", "a", 3, 9)],
    ),
    "rounds that killed their nodes are no waits": (
        STUCK,
        30,
        [event("node_lost", "b", 13), event("node_lost", "c", 24)],
        [
            ROUND,
            ("parked", "a", 1, 11),
            ("round", "b", 11, 13),
            ("unheld", "b", 13, 21),
            ("round", "c", 21, 24),
            ("stuck", "c", 24, 30),
        ],
    ),
    "the end of the last one is not known": (
        STUCK,
        30,
        [event("node_lost", "b", 13)],
        [ROUND, ("parked", "a", 1, 11), ("round", "b", 11, 13), ("unheld", "b", 13, 21), ("stuck", "c", 21, 30)],
    ),
    "a round that runs ends now": (
        view(PARKED, live=held("a", "running", resumed=T + 5)),
        9,
        [],
        [ROUND, ("parked", "a", 1, 5), ("round", "a", 5, 9)],
    ),
    "the first round": (view(record="none", live=held("a", "running", round=0)), 2, [], [("round", "a", 0, 2)]),
}


@pytest.mark.parametrize(("seen", "now", "events", "drawn"), TALES.values(), ids=TALES)
def test_what_is_not_known_is_not_drawn_as_known(
    seen: dict[str, Any], now: float, events: list[dict[str, Any]], drawn: list[tuple[str, str, float, float]]
) -> None:
    """An eviction, a lost node or a handoff tells since when nobody holds a call, and nothing else does."""
    assert spans(tale(seen, now, *events)) == drawn


def test_a_round_is_a_bar_and_what_lies_between_is_parked() -> None:
    """The bar begins as long before its step as the round ran."""
    result = tale(view(PARKED, step("finished", 1, 1, "a", 61, 0.5), record="done"), 999)
    assert spans(result) == [ROUND, ("parked", "a", 1, 60.5), ("round", "a", 60.5, 61)]
    marks = [(one["what"], one["node"]) for one in result["marks"]]
    assert marks == [("asked", "a"), ("answered", "a"), ("finished", "a")]
    assert (result["end"] - T, result["ended"], result["lanes"]) == (61, True, ["a"])


def test_a_takeover_leads_from_lane_to_lane() -> None:
    """It lies within the round that the retry had begun, and the lanes stand in the order in which nodes came."""
    seen = view(step("parked", 1, 1, "z", 1, 1), step("claimed", 1, 2, "a", 11, 0), step("parked", 2, 2, "a", 12, 2))
    result = tale({**seen, "live": held("a")}, 20)
    rounds = [("round", "z", 0, 1), ("parked", "z", 1, 10), ("round", "a", 10, 12), ("parked", "a", 12, 20)]
    assert spans(result) == rounds and result["lanes"] == ["z", "a"]
    [takeover] = [one for one in result["marks"] if one["what"] == "takeover"]
    assert (takeover["from_node"], takeover["node"], takeover["epoch"]) == ("z", "a", 2)
    assert any(words.startswith("a took it over from z at") for words in result["said"])


def test_what_is_odd_is_said() -> None:
    assert any("since when is not known" in words for words in tale(view(PARKED), 9)["said"])
    stuck = tale(STUCK, 30, event("node_lost", "b", 13), event("node_lost", "c", 24))["said"]
    assert any("nobody enters it again" in words for words in stuck)
    assert any(words.startswith("Round 2 was entered on b at") and "never ended" in words for words in stuck)


@pytest.mark.parametrize(("round_", "epoch", "gone"), [(1, 1, False), (0, 2, False), (8, 1, True), (1, 3, True)])
def test_a_trail_without_its_beginning_says_so(round_: int, epoch: int, gone: bool) -> None:
    assert tale(view(step("parked", round_, epoch, "a", 1, 0.5)), 2)["cutOff"] is gone


def test_every_step_is_said() -> None:
    """In the timeline and in its table."""
    for name in STEPS:
        sentences = tale(view(PARKED, step(name, 2, 2, "b", 5)), 9)["said"]
        assert any(" b" in sentence or sentence.startswith("b ") for sentence in sentences), name
        assert not any("undefined" in sentence or "NaN" in sentence for sentence in sentences), name
    rows = of(
        "given.map((one) => stepped(one))",
        [*(step(name, 2, 2, "b", 5) for name in STEPS), step("claimed", 2, 2, "b", 5) | {"kept_code": True}],
    )
    assert not set(rows) & set(STEPS)
    assert rows[-1] == "Taken over, and replayed, with the code that it began with"


def places(rounds: list[tuple[float, float]], instants: list[float], width: float) -> Any:
    given = [[{"from": one, "to": other} for one, other in rounds], instants, width]
    made = "((line) => ({ width: line.width, breaks: line.breaks, at: given[1].map(line.x) }))(timescale(...given))"
    return of(made, given)


def test_rounds_of_milliseconds_stay_visible_beside_an_hour() -> None:
    """The hour is cut, and says that it is one; nothing runs backwards, and all of the width is used."""
    line = places([(0, 0.002), (3600, 3600.005)], [0, 0.002, 3600, 3600.005], 800)
    one, two, three, four = line["at"]
    assert (one, round(four)) == (0, 800)
    assert two - one >= 9 and four - three >= 9
    assert (four - three) > (two - one), "rounds share one scale"
    assert [round(cut["seconds"]) for cut in line["breaks"]] == [3600]


def test_what_fits_is_drawn_as_it_is_and_many_rounds_make_it_wider() -> None:
    """Rather than narrower than one can point at."""
    line = places([(0, 1), (2, 3)], [0, 1, 2, 3], 300)
    assert line["breaks"] == [] and [round(at) for at in line["at"]] == [0, 100, 200, 300]
    rounds = [(10.0 * n, 10.0 * n + 0.001) for n in range(64)]
    line = places(rounds, [at for one in rounds for at in one], 600)
    assert line["width"] > 600
    assert all(other >= one for one, other in zip(line["at"], line["at"][1:], strict=False))
    assert places([], [5.0], 300)["at"] == [0]
