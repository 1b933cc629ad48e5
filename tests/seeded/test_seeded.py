"""Real runtimes under seeded schedules: clean, the same each time, and red where a rule is broken."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim.mutations import mutated

from .plan import draw
from .world import play

FOUND = {"gate-off": 2, "claim-ignores-the-mark": 6, "position-off": 48, "effect-before-intent": 53}
"""Mutations of core, each with a schedule that shows it."""


@pytest.mark.parametrize("first", range(1, 31, 10))
def test_schedules_are_clean(first: int) -> None:
    for seed in range(first, first + 10):
        world, error = play(draw(seed))
        assert error is None, "\n".join((f"seed {seed}", *world.lines, repr(error)))


@pytest.mark.parametrize(("mutation", "seed"), FOUND.items())
def test_a_broken_rule_is_found(mutation: str, seed: int) -> None:
    with mutated(mutation):
        assert play(draw(seed))[1] is not None


def test_a_seed_is_one_schedule() -> None:
    """In another process, where sets and dicts of texts have another order."""
    command = [sys.executable, "-m", "tests.seeded", "--runs", "8", "--seed", "100", "--trace"]
    traces = [
        subprocess.run(command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True)
        for seed in ("1", "2")
    ]
    first, second = (trace.stdout.splitlines()[:-1] for trace in traces)
    assert len(first) > 100 and first == second
