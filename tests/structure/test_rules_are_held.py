"""`held_by.toml` names tests for each rule of docs/protocol.md: one of core's fails where the rule is taken away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.mutations import RED

from .test_law import held_by

ROOT = Path(__file__).parents[2]
MUTATIONS: dict[str, list[str]] = {}
for _name, _mutation in RED.items():
    MUTATIONS.setdefault(_mutation.rule, []).append(_name)

ONLY_PLAYED = {
    "9": "its mutations repeat messages of the simulated network and requests of a simulated client",
    "11": "its mutation lets a simulated frame ask while nobody listens",
    "19": "its mutations are of the simulated node, which relays",
    "ownership-table": "a row that is taken away before its tests are collected leaves no case that could fail",
    "retry-table": "the same",
}
"""Rules and tables of which only the simulation shows that something was taken away, and why."""
RULES = [rule for rule in MUTATIONS if rule not in ONLY_PLAYED and not rule.startswith("I")]
SAMPLE = ("4", "5", "7")


def _fails(rule: str, mutation: str) -> bool:
    """Whether a test of core that is named for the rule fails under a mutation."""
    held = held_by()[f"rule-{rule}" if rule.isdigit() else rule]
    tests = [f"tests/{name}" for name in held.tests if name.startswith("core/")]
    assert tests, f"{rule} names no test of core"
    command = [sys.executable, "-m", "tests.sim.under", mutation, *tests]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 1


@pytest.mark.parametrize(
    "rule", [rule if rule in SAMPLE else pytest.param(rule, marks=pytest.mark.nightly) for rule in RULES]
)
def test_a_named_test_fails_where_the_rule_is_taken_away(rule: str) -> None:
    assert any(_fails(rule, mutation) for mutation in MUTATIONS[rule])
