"""`python -m framehold_loadtest.peers`: what it runs, what it keeps, and what its exit code says."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from framehold_loadtest.bench.lab.servers import BASELINE
from framehold_loadtest.bench.sections import relays
from framehold_loadtest.peers import __main__ as command
from framehold_loadtest.peers import compare

pytestmark = pytest.mark.load

PLAN = {"turns": 1, "lead": 1.0, "warm": 0.0, "seconds": 1.0}


def section(errors: dict[str, int], missing: dict[str, str]) -> dict[str, Any]:
    """What was measured, with so many errors, and what was not."""
    figures = dict.fromkeys(("calls_per_second", "server_cpu", "store_cpu", "busy", "load_busy"), 0.5)
    times = dict.fromkeys(("first_p50", "first_p99", "second_p50", "second_p99"), 0.001)
    row = {"peer": BASELINE, "rates": [], "costs": [], **figures, **times, "errors": errors}
    return {"connections": 1, "plan": PLAN, "peers": {}, "rows": [row], "not_available": missing}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the measurements are to return by name; then what they were asked for."""
    result: dict[str, Any] = {"calls": section({}, {}), "relays": {"not_available": {}}, "asked": []}
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(relays, "measure", lambda *_: result["asked"].append("relays") or result["relays"])
    monkeypatch.setattr(compare, "measure", lambda plan, peers, cores: result["asked"].extend(peers) or result["calls"])
    return result


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The command with its options; its exit code."""
    monkeypatch.setattr(sys, "argv", ["peers", *words])
    return command.main()


def test_all_peers_then_the_router_beside_haproxy_and_every_figure_is_kept(
    ran: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert run(monkeypatch, "--quick", "--json", str(tmp_path / "figures")) == 0
    assert (len(ran["asked"]), ran["asked"][0], ran["asked"][-1]) == (13, BASELINE, "relays")
    kept = json.loads((tmp_path / "figures").read_text())
    assert (kept["quick"], kept["calls"], kept["relays"]) == (True, ran["calls"], ran["relays"])
    assert "restate-server 1." in kept["machine"]["peers"]


def test_only_what_is_named_runs(ran: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, "--only", "typescript", "--only", BASELINE) == 0
    assert run(monkeypatch, "--only", "relays") == 0
    assert ran["asked"] == [BASELINE, "typescript", "relays"]


@pytest.mark.parametrize(
    ("calls", "relays"),
    [
        (section({"round 2 has a wrong result": 1}, {}), {"not_available": {}}),
        (section({}, {"typescript": "npm is missing"}), {"not_available": {}}),
        (section({}, {}), {"not_available": {"haproxy": "install haproxy"}}),
    ],
)
def test_an_error_or_a_peer_that_is_not_there_is_a_failure(
    ran: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    calls: dict[str, Any],
    relays: dict[str, Any],
) -> None:
    """And its reason is printed."""
    ran.update(calls=calls, relays=relays)
    assert run(monkeypatch, "--quick") == 1
    printed = capsys.readouterr().out
    reasons = [*calls["rows"][0]["errors"], *calls["not_available"].values(), *relays["not_available"].values()]
    assert all(reason in printed for reason in reasons)
