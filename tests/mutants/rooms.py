"""Plays the tests of a mutant's room: what no schedule notices, a test may."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import accumulate
from pathlib import Path

from tests.kit.processes import ROOT

from .entered import Marks
from .places import Mutant, as_it_is

LIMIT = 900
"""Seconds for tests that take 400 at most. A mutant hangs that makes them last longer."""
FIRST = 10.0
"""Seconds for the fastest tests that come to a branch which a mutant decides on, and for the others that execute its
statement."""
_CORE, _STORE = ("tests/core",), ("tests/store",)
_ENGINE = ("tests/node/engine", "tests/node/frame", "tests/node/code")
_ROOMS = {"core": _CORE, "store": _STORE, "node": _ENGINE}
"""The tests of each room, by the beginning of its files' names. They look at what stands in no function."""
_OTHERS = tuple(f"tests/node/{room}" for room in ("admin", "authoring", "hosts", "http", "sdk", "telemetry", "wires"))
_ALL = (_CORE, _STORE, _ENGINE, _OTHERS)
"""The tests that look at a statement: those of them that execute it."""
_SCRIPTS = tuple(
    f"tests/store/test_{name}.py"
    for name in ("illegible", "sizes", "values", "trail", "kept_code", "pauses", "contract", "equivalence", "registry")
)
"""Which tests run a script is not known. These run each of them."""
_HANGS = "which hangs"
_FAILED = re.compile(r"^(?:FAILED|ERROR) (?:tests/)?(\S+)", re.MULTILINE)
_PLAIN = ("-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not nightly")
_KEPT = Path.home() / ".cache" / "framehold" / "executed"


class Unsure(Exception):
    """What tests say of a mutant says nothing: they are red without it, too."""


def room_of(mutant: Mutant) -> tuple[str, ...]:
    """The tests of a mutant's room."""
    return next(tests for file, tests in _ROOMS.items() if mutant.file.startswith(file))


def learn() -> None:
    """Have it noted which statements the tests execute."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(entering, _ALL))


@cache
def entering(room: tuple[str, ...]) -> dict[str, tuple[float, dict[str, list[int]]]]:
    """For each test of a room the seconds that it takes, and the lines of the statements that it executes, by their
    files. It is kept while no source of the rooms and of the tests changes, but for this package; without, the tests
    are played once."""
    kept = _KEPT / f"{_digest(room)}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            found = Path(folder) / "found.json"
            run = (sys.executable, "-m", "pytest", *_PLAIN, "-p", "tests.mutants.entered", *room)
            subprocess.run(run, cwd=ROOT, env={**os.environ, "ENTERED": str(found)}, capture_output=True, check=False)
            kept.write_bytes(found.read_bytes())
    read: dict[str, tuple[float, dict[str, list[int]]]] = json.loads(kept.read_text())
    return read


@cache
def _functions(file: str) -> dict[int, str]:
    """The line of each statement of a file that stands in a function, and this function."""
    marks = Marks()
    marks.visit(as_it_is(file))
    return marks.functions


@cache
def _ifs(file: str) -> tuple[ast.If, ...]:
    return tuple(node for node in ast.walk(as_it_is(file)) if isinstance(node, ast.If))


def _branches(mutant: Mutant) -> set[int]:
    """The lines at which the branches begin that a mutant decides on."""
    decides = [node for node in _ifs(mutant.file) if node.lineno <= mutant.line < node.body[0].lineno]
    return {branch[0].lineno for node in decides for branch in (node.body, node.orelse) if branch}


def _executing(mutant: Mutant) -> list[tuple[bool, float, str]] | None:
    """The tests that execute the statement of a mutant, each with its seconds: first those that come to a branch which
    the mutant decides on, the fastest first. None if that is not known: a script, or a statement in no function."""
    if mutant.file.endswith(".lua"):
        return None
    functions = _functions(mutant.file).items()
    lines = [line for line, function in functions if line <= mutant.line and function == mutant.function]
    if not lines:
        return None
    branches, executing = _branches(mutant), []
    for test, (seconds, found) in (item for room in _ALL for item in entering(room).items()):
        if max(lines) in (executed := found.get(mutant.file, ())):
            executing.append((branches.isdisjoint(executed), seconds, test))
    return sorted(executing)


def _digest(room: tuple[str, ...]) -> str:
    found = hashlib.blake2b(repr(room).encode(), digest_size=8)
    for folder in ("core", "store", "fleet", "node", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.parent != Path(__file__).parent:
                found.update(path.read_bytes())
    return found.hexdigest()


def noticed(mutant: Mutant, by: tuple[str, ...] = (), *, is_quick: bool = False) -> str:
    """The first test that turns red by a mutant; empty if none did. `by`: the tests that are played, if any are named.
    `is_quick`: of the tests that execute its statement the fastest alone are. Raises RuntimeError if the tests could
    not run, Unsure if they are red without it."""
    if by:
        return _first_red(mutant, by, LIMIT)
    executing = _executing(mutant)
    if executing is None:
        is_script = mutant.file.endswith(".lua")
        return _first_red(mutant, _SCRIPTS if is_quick and is_script else room_of(mutant), LIMIT)
    files = dict.fromkeys(test.partition("::")[0] for *_, test in executing)
    if is_quick:
        chosen = {test for comes in (False, True) for test in _fastest(executing, comes)}
        # File by file: a fixture of a module is made once.
        tests = tuple(
            test for file in files for *_, test in executing if test in chosen and test.startswith(f"{file}:")
        )
    else:
        # Whole files: what a fixture of several tests executes is noted for the first of them.
        tests = tuple(files)
    return _first_red(mutant, tests, 12 * FIRST if is_quick else LIMIT) if tests else ""


def _fastest(executing: list[tuple[bool, float, str]], passes: bool) -> list[str]:
    """Those of the tests that pass the branches of a mutant, or that come to one, which together take FIRST seconds."""
    found = [(seconds, test) for passed, seconds, test in executing if passed == passes]
    spent = accumulate(seconds for seconds, _ in found)
    return [test for (_, test), until in zip(found, spent, strict=True) if until <= FIRST]


def _first_red(mutant: Mutant, tests: tuple[str, ...], limit: float, without: tuple[str, ...] = ()) -> str:
    """The first of these tests that turns red by a mutant, and is green in the same run without it."""
    found = _failed(mutant.name, tests, limit, without)
    if not found or not (red := _failed("", tests, limit, without)):
        return f"test, {found}" if found else ""
    if red == _HANGS or red in without:
        raise Unsure(f"without a mutant, too, a test turns red: {red}")
    return _first_red(mutant, tests, limit, (*without, red))


@cache
def _failed(mutant: str, tests: tuple[str, ...], limit: float, without: tuple[str, ...]) -> str:
    """The first of these tests that turns red by a mutant; if that has no name, without one."""
    left_out = (f"--deselect=tests/{test}" for test in without)
    plain = (*_PLAIN, f"--timeout={limit / 2}", *left_out)
    command = (sys.executable, "-m", "pytest", "-x", *plain, "-p", "tests.mutants.hook", *tests)
    told = {**os.environ, "MUTANT": mutant}
    try:
        ended = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return _HANGS
    found = _FAILED.search(ended.stdout)
    if ended.returncode in (0, 5):
        return ""
    if found is None:
        raise RuntimeError(f"the tests of {mutant} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return found[1]
