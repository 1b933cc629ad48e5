"""The lists of `tests/phases.py` name files that are there, and no test is left out or run twice."""

from pathlib import Path

from tests.phases import ALONE, PROCESSOR, SLOW, WAITING

ROOT = Path(__file__).parents[2]
LANES = (*PROCESSOR, *WAITING)


def within(path: str, others: tuple[str, ...]) -> bool:
    """Whether a path is one of the others, or in one of their folders."""
    return any(path == other or path.startswith(f"{other}/") for other in others)


def test_all_that_is_named_is_there() -> None:
    """A file that was moved would be run in the wrong phase, or too late."""
    assert [path for path in (*LANES, *ALONE, *SLOW) if not (ROOT / path).exists()] == []


def test_each_test_is_in_one_phase() -> None:
    """The first phase takes what the lanes leave; the last phase takes its files from all others."""
    assert [path for path in SLOW if within(path, (*LANES, *ALONE))] == []
    assert [path for path in LANES if within(path, tuple(other for other in LANES if other != path))] == []
