"""The table of targets: none is left out, and each is judged by what the run measured, or says why it is not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from framehold_loadtest.bench.targets import TARGETS, standing

pytestmark = pytest.mark.load

RECORDED = Path(__file__).parent / "recorded" / "bench.json"
Found = dict[str, Any]


@pytest.fixture
def run() -> Found:
    """What a run of all sections measured."""
    found: Found = json.loads(RECORDED.read_text())
    return found


def cells(run: Found, what: str) -> dict[str, str]:
    """The line of one target by its columns."""
    columns, *lines = ([cell.text for cell in line] for line in standing(run).entries)
    (line,) = [line for line in lines if line[0].startswith(what)]
    return dict(zip(columns, line, strict=True))


def test_a_whole_run_has_a_figure_or_a_reason_for_each(run: Found) -> None:
    """What is not measured: the targets of the trade-off, which another command measures."""
    _, *lines = ([cell.text for cell in line] for line in standing(run).entries)
    assert len(lines) == len(TARGETS)
    missing = [line for line in lines if line[3].startswith("not measured: ")]
    assert [line[-1] for line in missing] == ["trade-off"] * 3
    assert all("`framehold bench tradeoff`" in line[3] for line in missing)


def test_a_target_whose_section_did_not_run_says_so(run: Found) -> None:
    del run["store"]
    assert cells(run, "a store write")["measured"] == "not measured: this run left it out; `--only store` runs it"


def _calls(run: Found, value: float) -> None:
    run["calls"]["rows"][2]["to"]["sdk"]["cpu"] = [value - 0.1, value, value + 3]


def _single(run: Found, value: float) -> None:
    (row,) = [row for row in run["single"]["rows"] if row["server"] == "framehold redis, everysec"]
    row["to"]["sdk"]["p50"] = [value - 0.1, value, value + 3]


def _added(run: Found, value: float) -> None:
    for row in run["single"]["rows"]:
        row["p50s"] = [0.001, 0.001 + value / 1e3] if row["server"].endswith(", router") else [0.001, 0.001]
        row["p50s"] = row["p50s"][1:] * 2


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
    (row,) = [row for row in run["router"]["rows"] if row["server"] == "framehold router"]
    row["to_haproxy"] = [value - 0.1, value, value + 3]


def _storm(run: Found, value: float) -> None:
    (row,) = [row for row in run["survival"]["rows"] if row["calls"] > 1]
    row |= {"calls": 10_000, "finished": 10_000, "first": 1.0, "last": 1.0 + 10_000 / value}


def _storm_of_lost(run: Found, value: float) -> None:
    """Each second has so many right answers, and ten times as many calls that are lost."""
    _storm(run, value)
    run["survival"]["rows"][-1] |= {"finished": 1_000, "last": 1.0 + 1_000 / value}


def _killed(run: Found, value: float) -> None:
    run["survival"]["rows"][0]["slowest"] = value


@pytest.mark.parametrize(
    ("what", "change", "stretch", "must", "missed"),
    [
        ("`uvicorn server:app` without a store", _calls, 2.5, 2.0, 1.99),
        ("a round at one call at a time", _single, 1.2, 1.5, 1.51),
        ("what the router adds", _added, None, 1.0, 1.01),
        ("10,000 calls of a killed node", _storm, 1500, 1200, 900),
        ("10,000 calls of a killed node", _storm_of_lost, 1500, 1200, 900),
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
    run["router"] |= {"rows": [], "not_available": {"haproxy": "install haproxy"}}
    assert (
        cells(run, "`uvicorn server:app` with Redis")["measured"]
        == "not measured: framehold redis: redis-server is missing"
    )
    assert cells(run, "router to HAProxy")["measured"] == "not measured: haproxy: install haproxy"
    assert cells(run, "`uvicorn server:app` without a store")["verdict"] == "NOT met"


def test_nothing_is_compared_where_the_sdk_could_not_be_measured(run: Found) -> None:
    rows = [row | {"to": {}} for row in run["calls"]["rows"][1:]]
    run["calls"] |= {"rows": rows, "not_available": {"sdk": "it did not start"}}
    assert cells(run, "`uvicorn server:app` without a store")["measured"] == "not measured: sdk: it did not start"
