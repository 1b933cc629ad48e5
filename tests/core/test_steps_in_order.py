"""A trail that grows step by step is the one that is put in order at once."""

from __future__ import annotations

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from framehold_core.trail import Moved, TrailStep, followed, ordered

BEFORE: tuple[TrailStep, ...] = ()
_moved = st.sampled_from(Moved)
_steps = st.builds(TrailStep, _moved, st.integers(0, 80), st.integers(1, 80), st.just("n1"), st.floats(0, 99))


@given(st.lists(_steps, max_size=12))
def test_any_steps(steps: list[TrailStep]) -> None:
    *_, whole = accumulate(steps, followed, initial=BEFORE)
    assert whole == ordered(steps)
