"""Real runtimes under seeded schedules: clean, the same each time, and red where a rule is broken."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.fuzz import today

FOUND = {
    "gate-off": 1,
    "finish-gate-off": 1,
    "answers-not-carried": 2,
    "digest-off": 5,
    "verify-keeps-epoch": 2,
    "claim-keeps-epoch": 1,
    "owner-thought-gone": 23,
    "heals-what-another-has-ended": 184,
}
"""Mutations of core, each with a schedule that shows it."""


def _play(*arguments: str, hashing: str = "random") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.seeded", *arguments]
    told = {**os.environ, "PYTHONHASHSEED": hashing}
    return subprocess.run(command, env=told, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("first", (1, 101, 201, today()))
def test_schedules_are_clean(first: int) -> None:
    found = _play("--runs", "100", "--seed", str(first))
    assert found.returncode == 0, found.stdout + found.stderr
    assert "100 schedules clean" in found.stdout


@pytest.mark.parametrize(("mutation", "seed"), FOUND.items())
def test_a_broken_rule_is_found(mutation: str, seed: int) -> None:
    found = _play("--runs", "1", "--seed", str(seed), "--mutate", mutation)
    assert f"seed {seed} fails" in found.stdout, found.stdout + found.stderr


def test_a_seed_is_one_schedule() -> None:
    """In another process, where sets and dicts of texts have another order."""
    first, second = (_play("--runs", "20", "--seed", "100", "--trace", hashing=seed).stdout for seed in ("1", "2"))
    assert len(first.splitlines()) > 400 and first == second
