"""The table of targets: none is left out, and each is judged by what the run measured, or says why it is not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framehold_loadtest.bench.tables import targets
from framehold_loadtest.bench.tables.targets import TARGETS, Target, standing

pytestmark = pytest.mark.load

RECORDED = Path(__file__).parent / "recorded" / "bench.json"
ASKED = [
    ("`uvicorn server:app` without a store, CPU, to the SDK", 2.0, 2.4),
    ("`uvicorn server:app` with Redis, CPU of both, to the SDK", 1.8, 2.1),
    ("`framehold node` without a store, CPU, to the SDK", 2.5, 3.0),
    ("`framehold node` with Redis, CPU of both, to the SDK", 2.2, 2.6),
    ("a sync tool, CPU", 1.8, 2.3),
    ("a tool behind a guard", 1.8, 2.3),
    ("a tool behind an ASGI middleware", 1.8, 2.3),
    ("a prompt with a question", 1.8, 2.3),
    ("a tool of a low-level server", 1.8, 2.3),
    ("a tool of FastMCP, to FastMCP", 1.8, 2.3),
    ("the trade-off's tool, steady", 0.9, 1.05),
    ("the same, median of the slowest round, to E's", 1.5, 1.2),
    ("store operations of that tool, H-hold", 5, 4),
    ("functions that round 2 enters", 100, 80),
    ("a round at one call at a time, with Redis, p50", 1.5, 1.2),
    ("router to HAProxy, CPU, same hash", 1.5, 1.2),
    ("10,000 calls of a killed node, answered per second", 1100, 1400),
    ("a parked frame, RSS, reply copy included", 6.5, 6),
    ("resume p50", 0.15, 0.05),
    ("resume p99", 0.15, 0.05),
    ("longest young pause", 25, 10),
    ("cyclic objects per call", 0, 0),
    ("a store write, loaded, client CPU, to redis-py's pipeline", 0.5, 0.25),
    ("store writes of a round", 1, 1),
]
"""Targets of speed in docs/measured.md, in its order: must and stretch."""
Found = dict[str, Any]


@pytest.fixture
def run() -> Found:
    """What a run of all sections measured."""
    found: Found = json.loads(RECORDED.read_text())
    return found


def cells(run: Found, what: str) -> dict[str, str]:
    """The line of one target by its columns."""
    columns, *lines = standing(run).lines
    (line,) = [line for line in lines if line[0].startswith(what)]
    return dict(zip(columns, line, strict=True))


@pytest.mark.parametrize(("what", "must", "stretch"), ASKED)
def test_every_target_of_the_design_has_a_line(what: str, must: float, stretch: float) -> None:
    (line,) = [line for line in TARGETS if line.what.startswith(what)]
    assert (line.must, line.stretch) == (must, stretch)


def test_no_target_is_kept_that_no_line_shows() -> None:
    found: list[object] = []
    for value in vars(targets).values():
        found += [value] if isinstance(value, Target) else value.values() if isinstance(value, dict) else []
    kept = [one for one in found if isinstance(one, Target)]
    assert len(kept) > 12
    shown = {id(line) for line in TARGETS}
    assert [one for one in kept if id(one) not in shown] == []


def test_a_whole_run_has_a_figure_or_a_reason_for_each(run: Found) -> None:
    """What is not measured: the targets of the trade-off, which another command measures."""
    _, *lines = standing(run).lines
    assert len(lines) == len(TARGETS)
    missing = [line for line in lines if line[3].startswith("not measured: ")]
    assert [line[-1] for line in missing] == ["trade-off"] * 3
    assert all("`framehold bench tradeoff`" in line[3] for line in missing)


def test_a_target_whose_section_did_not_run_says_so(run: Found) -> None:
    del run["store"]
    assert cells(run, "a store write")["measured"] == "not measured: this run left it out; `--only store` runs it"


def _calls(run: Found, value: float) -> None:
    run["calls"]["rows"][2]["cpu_ratio"] = value


def _single(run: Found, value: float) -> None:
    (row,) = [row for row in run["single"]["rows"] if row["server"] == "framehold redis, everysec"]
    row["ratios"] = [value - 0.1, value, value + 3]


def _weight(run: Found, value: float) -> None:
    run["frames"]["rows"][-1]["rss_bytes"] = value * 1024 * run["frames"]["rows"][-1]["frames"]


def _p99(run: Found, value: float) -> None:
    run["frames"]["rows"][0]["resume_p99"], run["frames"]["rows"][-1]["resume_p99"] = 1e-3, value * 1e-3


def _pause(run: Found, value: float) -> None:
    for row in run["frames"]["rows"]:
        row["young_pause"], row["parking_young_pause"] = 0.001, value


def _cyclic(run: Found, value: float) -> None:
    run["frames"]["rows"][0]["cyclic_per_call"] = value


def _write(run: Found, value: float) -> None:
    run["store"]["rows"][0]["ratios"] = [value - 0.1, value, value + 3]


def _writes(run: Found, value: float) -> None:
    run["store"]["rounds"][2] = value


def _relay(run: Found, value: float) -> None:
    run["router"]["relays"]["rows"][1]["ratios"]["haproxy"]["middle"] = value


def _storm(run: Found, value: float) -> None:
    (row,) = [row for row in run["survival"]["rows"] if row["calls"] > 1]
    row |= {"calls": 10_000, "first": 1.0, "last": 1.0 + 10_000 / value}


def _killed(run: Found, value: float) -> None:
    run["survival"]["rows"][0]["slowest"] = value


@pytest.mark.parametrize(
    ("what", "change", "stretch", "must", "missed"),
    [
        ("`uvicorn server:app` without a store", _calls, 2.5, 2.0, 1.99),
        ("a round at one call at a time", _single, 1.2, 1.5, 1.51),
        ("10,000 calls of a killed node", _storm, 1500, 1200, 900),
        ("a parked frame", _weight, 6, 6.5, 6.6),
        ("resume p99", _p99, 1.04, 1.1, 1.2),
        ("longest young pause", _pause, 0.009, 0.02, 0.026),
        ("cyclic objects per call", _cyclic, None, 0, 0.01),
        ("a store write, loaded", _write, 0.25, 0.5, 0.51),
        ("store writes of a round", _writes, None, 1, 2),
        ("router to HAProxy", _relay, 1.2, 1.5, 1.51),
        ("a call goes on after SIGKILL", _killed, None, 2.0, 2.1),
    ],
)
def test_a_line_judges_what_was_measured(
    run: Found, what: str, change: Callable[[Found, float], None], stretch: float | None, must: float, missed: float
) -> None:
    for value, verdict in ((stretch, "stretch met"), (must, "must met"), (missed, "NOT met")):
        if value is not None:
            changed = copy.deepcopy(run)
            change(changed, value)
            assert cells(changed, what)["verdict"] == verdict


def test_what_could_not_be_measured_says_why(run: Found) -> None:
    """Its section ran, and had not what it needs."""
    run["calls"] |= {"rows": run["calls"]["rows"][:3], "not_available": {"framehold redis": "redis-server is missing"}}
    run["router"] |= {"relays": {}, "not_available": {"haproxy": "install haproxy"}}
    assert (
        cells(run, "`uvicorn server:app` with Redis")["measured"]
        == "not measured: framehold redis: redis-server is missing"
    )
    assert cells(run, "router to HAProxy")["measured"] == "not measured: haproxy: install haproxy"
    assert cells(run, "`uvicorn server:app` without a store")["verdict"] == "NOT met"


def test_nothing_is_compared_where_the_sdk_could_not_be_measured(run: Found) -> None:
    rows = run["calls"]["rows"][1:]
    for row in rows:
        row |= {"cpu_ratio": None, "cpu_ratios": []}
    run["calls"] |= {"rows": rows, "not_available": {"sdk": "it did not start"}}
    assert cells(run, "`uvicorn server:app` without a store")["measured"] == "not measured: sdk: it did not start"
