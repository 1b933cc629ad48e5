"""The tool that takes decisions out: what it makes is another program, and what notices is told."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.processes import ROOT

from .places import MODULES, mutants, mutated

_EASY = "core/framehold_core/takeover:_from_record:1"
"""A mutant that the simulation finds within a few schedules."""


@pytest.mark.parametrize("file", MODULES)
def test_each_mutant_is_another_program(file: str) -> None:
    found = list(mutants(file))
    names = {mutant.name for mutant in found}
    as_it_is = ast.dump(ast.parse((ROOT / f"{file}.py").read_text()))
    assert found and len(names) == len(found)
    for mutant in found:
        made = mutated(mutant.name)
        compile(made, mutant.name, "exec", dont_inherit=True)
        assert ast.dump(made) != as_it_is, mutant


def test_a_mutant_is_found_by_the_simulation() -> None:
    """In another process: the places of real runtimes stay in the process that played them."""
    program = (
        "from tests.mutants.places import mutants\n"
        "from tests.mutants.worlds import in_child\n"
        f"print(next(in_child(it) for it in mutants({_EASY.partition(':')[0]!r}) if it.name == {_EASY!r}))"
    )
    told = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.startswith("simulation, schedule"), told


def test_tests_run_a_mutant() -> None:
    """With the plugin, the tests of its room turn red."""
    command = (*(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist"), *("-p", "tests.mutants.hook"))
    name = "core/framehold_core/ownership:Case.record:0"
    told = subprocess.run(
        (*command, "tests/core/test_ownership.py"),
        cwd=ROOT,
        env={**os.environ, "MUTANT": name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1 and "1 failed" in told.stdout, told.stdout + told.stderr
