"""Each scenario in miniature, on a fleet of real processes; and what a scenario says of a server that was broken on
purpose."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from framehold_loadtest.local.fleet import ROUND_ROBIN, FleetPlan
from framehold_loadtest.report import data
from framehold_loadtest.scenario.run import Order, run
from framehold_loadtest.scenario.scenarios import DUPLICATES, KILLED, SCENARIOS, SOAK, STEADY, STORE, THUNDERING
from framehold_loadtest.scenario.swarm import Crowd

pytestmark = [pytest.mark.load, pytest.mark.fleet]

SECONDS = {STEADY.name: 3.0, KILLED.name: 8.0, STORE.name: 14.0}
"""A fault takes its time, and so does what comes of it."""
AWAKENED = FleetPlan(nodes=2, lease_ttl=1.0, front=ROUND_ROBIN, slow=1.0)
"""Clients hold connections to the node that is paused, so nobody tells its frames to end, and many are in the middle of
their last round."""
MANY = 30


def played(folder: Path, scenario: str, plan: FleetPlan, users: int = 8, seconds: float = 5.0) -> data.Scenario:
    crowd = Crowd(scenario, users=users, seconds=seconds, think=0.2, wave=2.0)
    # A process that is fresh grows for longer than a miniature takes.
    growth = 2.0**30 if scenario == SOAK.name else SOAK.bounds.growth
    bounds = replace(SCENARIOS[scenario].bounds, lease_ttl=plan.lease_ttl, growth=growth)
    return run(Order(crowd, folder / "run", plan, bounds, command=f"framehold load {scenario}"), print)


def broken(found: data.Scenario) -> set[str]:
    return {verdict.name for verdict in found.verdicts if not verdict.passed}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_kept(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its faults are made, its rules hold, progress is told, and its report can be read."""
    plan, users = (AWAKENED, MANY) if name == DUPLICATES.name else (FleetPlan(nodes=2, lease_ttl=2.0), 8)
    found = played(tmp_path, name, plan, users, SECONDS.get(name, 5.0))
    assert broken(found) == set(), "\n".join(map(str, found.verdicts))
    assert data.Scenario.model_validate_json((tmp_path / "run" / "report.json").read_bytes()) == found
    assert {fault.what for fault in found.faults} == {step.what for step in SCENARIOS[name].faults}
    assert sum(found.series.rate) > 0
    assert " rounds/s  parked n1:" in capsys.readouterr().out


def test_an_unguarded_effect_is_noticed_when_its_node_is_killed(tmp_path: Path) -> None:
    """The calls still end as if nothing were wrong: only the ledger knows."""
    found = played(tmp_path, KILLED.name, FleetPlan(nodes=2, lease_ttl=1.0, guarded=False))
    assert broken(found) == {"effects"}
    assert found.effects is not None and found.effects.twice > 0
    assert found.calls.lost == 0


def test_a_question_that_leaves_before_it_is_written_is_noticed_while_the_store_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(entry for entry in sys.path if entry))
    plan = FleetPlan(nodes=2, lease_ttl=4.0, target=Path(__file__).with_name("ungated.py"))
    found = played(tmp_path, STORE.name, plan, seconds=8.0)
    assert "output gate" in broken(found)


def test_a_fence_that_was_dropped_is_noticed_when_a_node_wakes_that_was_taken_for_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same fleet keeps the scenario with its fence."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(entry for entry in sys.path if entry))
    plan = replace(AWAKENED, target=Path(__file__).with_name("unfenced.py"))
    found = played(tmp_path, DUPLICATES.name, plan, MANY)
    assert "effects" in broken(found), found.verdicts
    assert found.effects is not None and found.effects.twice > 0


def test_a_handler_that_holds_up_its_loop_is_noticed_when_all_answer_at_once(tmp_path: Path) -> None:
    plan = FleetPlan(nodes=2, lease_ttl=4.0, slow=0.5, target=Path(__file__).with_name("blocking.py"))
    found = played(tmp_path, THUNDERING.name, plan)
    assert "loop lag, p99" in broken(found), found.verdicts


def test_a_fleet_that_keeps_no_frames_is_noticed_while_nothing_happens(tmp_path: Path) -> None:
    """Any node carries a call on, and any other the next round of it."""
    plan = FleetPlan(nodes=2, lease_ttl=4.0, strategy="replay", front=ROUND_ROBIN)
    assert broken(played(tmp_path, STEADY.name, plan, seconds=3.0)) == {"affinity"}


def test_a_tool_that_may_not_be_entered_again_is_lost_with_its_node(tmp_path: Path) -> None:
    """A fleet that could not take over would look like this."""
    found = played(tmp_path, KILLED.name, FleetPlan(nodes=2, lease_ttl=1.0, reentrant=False))
    assert "calls lost" in broken(found)
    assert found.calls.lost > 0
    assert found.effects is not None and found.effects.twice == 0
