"""A trail that grows step by step is the one that is put in order at once."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from framehold_core.trail import KEPT, Moved, TrailStep, followed, ordered

BEFORE: tuple[TrailStep, ...] = ()
_moved = st.sampled_from(Moved)
_steps = st.builds(TrailStep, _moved, st.integers(0, 80), st.integers(1, 80), st.just("n1"), st.floats(0, 99))


@given(st.lists(_steps, max_size=12))
def test_any_steps(steps: list[TrailStep]) -> None:
    *_, whole = accumulate(steps, followed, initial=BEFORE)
    assert whole == ordered(steps)


def test_no_more_than_are_kept() -> None:
    steps = [TrailStep(Moved.PARKED, round_, 1, "n1", 0.0) for round_ in range(3 * KEPT)]
    *_, whole = accumulate(steps, followed, initial=BEFORE)
    assert whole == tuple(steps[-KEPT:])
