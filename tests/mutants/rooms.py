"""Plays the tests of a mutant's room: what no schedule notices, a test may."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from tests.processes import ROOT

from .places import Mutant

LIMIT = 240
"""Seconds after which the tests of a room are given up."""
_ROOMS = {
    "core": ("tests/core",),
    "store/framehold_store/batch": ("tests/store/test_batch.py",),
    "store/framehold_store/scripts": ("tests/store",),
    "store/framehold_store/memory": ("tests/store/test_memory.py", "tests/store/test_contract.py"),
    "node/framehold/frame": ("tests/node/frame",),
    "node/framehold/engine": ("tests/node/engine",),
}
"""The tests of each room, by the beginning of its files' names."""
_FIRST = re.compile(r"^(?:FAILED|ERROR) (?:tests/)?(\S+)", re.MULTILINE)
_PLAIN = ("-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", "-p", "tests.mutants.hook", "-m", "not nightly")


def noticed(mutant: Mutant) -> str:
    """The first test that turns red by a mutant; empty if none did. Raises RuntimeError if the tests could not run."""
    room = next(tests for file, tests in _ROOMS.items() if mutant.file.startswith(file))
    command = (sys.executable, "-m", "pytest", *_PLAIN, *room)
    told = {**os.environ, "MUTANT": mutant.name}
    try:
        ended = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return ""
    found = _FIRST.search(ended.stdout)
    if ended.returncode in (0, 5):
        return ""
    if found is None:
        raise RuntimeError(f"the tests of {mutant.name} ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return f"test, {found[1]}"
