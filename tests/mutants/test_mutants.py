"""The tool that takes decisions out: what it makes is another program, and what notices is told."""

from __future__ import annotations

import ast
import gc
import os
import subprocess
import sys
from collections import Counter
from types import FunctionType

import pytest
from lupa.lua51 import LuaRuntime

from framehold_store.scripts import SCRIPTS
from tests.kit.processes import ROOT

from . import guards, worlds
from .places import MODULES, STARTED, module_of, mutants, mutated

FOUND = {
    "core/framehold_core/takeover:_from_record:1": "simulation, schedule",
    f"{guards.FOLDER}/verify.lua::6": "runtimes, schedule",
}
"""Mutants that are found within a few schedules, and by which."""
NOTICED = {
    "core/framehold_core/ownership:TakeoverCase.record:0": "tests/core/test_ownership.py",
    f"{guards.FOLDER}/restore.lua::0": "tests/store/test_pauses.py",
}
"""Mutants that a test notices, and its file."""
CALLS = ("commit", "intent", "result", "finish", "verify", "heal", "release", "claim", "read")
"""The scripts that read or write calls."""


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


@pytest.mark.parametrize("file", MODULES)
def test_the_tests_of_a_room_import_the_mutant(file: str) -> None:
    """The hook comes before the module that it changes."""
    name = next(mutants(file)).name
    run = (sys.executable, "-c", f"import tests.mutants.hook as hook, {module_of(file)} as found; print(vars(found))")
    ended = subprocess.run(
        run, cwd=ROOT, env={**os.environ, "MUTANT": name}, capture_output=True, text=True, check=False
    )
    assert f"'{STARTED}': <function started" in ended.stdout, ended.stderr


@pytest.mark.parametrize("file", MODULES)
def test_one_function_is_exchanged_for_a_mutant(file: str) -> None:
    """Also where it has no name, and another one stands on its line."""
    __import__(module_of(file))
    functions = [item for item in gc.get_objects() if getattr(item, "__module__", "") == module_of(file)]
    was = [(item, item.__code__) for item in functions if isinstance(item, FunctionType)]
    found = list(mutants(file))
    for name in (found[0].name, *(item.name for item in found if not item.function)):
        worlds.exchange(name)
        changed = [item for item, code in was if item.__code__ is not code]
        for item, code in was:
            item.__code__ = code
        assert len(changed) == 1, name


def test_each_guard_of_a_script_is_taken_out() -> None:
    """As a whole and in parts, and what is left is a program of Lua 5.1, which Redis has."""
    lua, found = LuaRuntime(), Counter[str]()
    for script in SCRIPTS.values():
        assert lua.compile(script.text)
    for file in guards.FILES:
        text = (ROOT / file).read_text()
        for guard in guards.guards(file):
            found[file] += not guard.left_out
            made = guards.without(text, guard)
            assert made != text
            # What a head needs of others is looked up when it runs.
            lua.compile(made)
        assert found[file] == text.count("-- guard:")
    assert all(found[f"{guards.FOLDER}/{name}.lua"] for name in ("fence", *CALLS))


@pytest.mark.parametrize(("name", "by"), FOUND.items())
def test_a_mutant_is_found_by_schedules(name: str, by: str) -> None:
    """In another process: the places of real runtimes stay in the process that played them."""
    program = (
        "from tests.mutants.places import mutants\n"
        "from tests.mutants.worlds import in_child\n"
        f"print(next(in_child(it) for it in mutants({name.partition(':')[0]!r}) if it.name == {name!r}))"
    )
    told = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert told.stdout.startswith(by), told


@pytest.mark.parametrize(("name", "tests"), NOTICED.items())
def test_tests_run_a_mutant(name: str, tests: str) -> None:
    """With the plugin, the tests of its room turn red."""
    command = (*(sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:xdist"), *("-p", "tests.mutants.hook"))
    told = subprocess.run(
        (*command, tests),
        cwd=ROOT,
        env={**os.environ, "MUTANT": name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1 and "1 failed" in told.stdout, told.stdout + told.stderr
