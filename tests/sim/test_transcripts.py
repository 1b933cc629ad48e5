"""The stories come out as they were last read by somebody."""

from __future__ import annotations

import pytest

from .stories import FOLDER, STORIES, told


@pytest.mark.parametrize("name", STORIES)
def test_a_story_comes_out_as_recorded(name: str) -> None:
    """If the change is meant, run `python -m tests.sim.stories` and read the diff."""
    assert told(name) == (FOLDER / f"{name}.txt").read_text()


def test_every_recorded_story_is_still_told() -> None:
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(STORIES)
