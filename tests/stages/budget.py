"""The minutes that each room of tests may take in `make test`, and the seconds of each file as they were measured.

`make nightly` compares the rooms with `tests/minutes.toml`, and writes the files into `tests/durations.json`. Parallel
workers begin with the file that took longest: the last one to start decides when they end.
"""

from __future__ import annotations

import json
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from tests.kit.processes import ROOT

MINUTES = ROOT / "tests" / "minutes.toml"
DURATIONS = ROOT / "tests" / "durations.json"
_WORTH = 1.0
"""Seconds from which on the place of a file in the order matters."""


def minutes() -> dict[str, float]:
    """The minutes of each room."""
    return {name: float(value) for name, value in tomllib.loads(MINUTES.read_text(encoding="utf-8")).items()}


@cache
def durations() -> dict[str, float]:
    """Seconds of each file that takes long, as they were measured last."""
    found: dict[str, float] = json.loads(DURATIONS.read_text(encoding="utf-8"))
    return found


def room(file: str, rooms: Mapping[str, float]) -> str:
    """The room of a test file: the longest of the rooms that contain it."""
    holding = [name for name in rooms if file.startswith(f"tests/{name}/")]
    return max(holding, key=len, default="rest")


def spent(seconds: Mapping[str, float], rooms: Mapping[str, float]) -> dict[str, float]:
    """The minutes that the tests of each room took; `seconds` by file."""
    minutes: defaultdict[str, float] = defaultdict(float)
    for file, took in seconds.items():
        minutes[room(file, rooms)] += took / 60
    return minutes


def over(seconds: Mapping[str, float], rooms: Mapping[str, float]) -> list[str]:
    """A line for each room whose tests took longer than its minutes; `seconds` by file."""
    return [
        f"{name} took {took:.1f} minutes of {rooms.get(name, 0):g}"
        for name, took in sorted(spent(seconds, rooms).items())
        if took > rooms.get(name, 0)
    ]


def write(seconds: Mapping[str, float]) -> None:
    """Keep the seconds of files that take long, longest first."""
    order = sorted(((round(took, 1), file) for file, took in seconds.items() if took >= _WORTH), reverse=True)
    DURATIONS.write_text(json.dumps({file: took for took, file in order}, indent=1) + "\n", encoding="utf-8")
