"""The readers of what others write, with new inputs each day that are drawn without looking at what they reach;
`make fuzz` looks."""

from __future__ import annotations

import time
from random import Random
from unittest import mock

import pytest

from . import today
from .bodies import spoiled
from .guided import seeds
from .guided.targets import LONGEST, TARGETS, checked

SECONDS = 0.5


@pytest.mark.parametrize("name", TARGETS)
def test_a_reader_keeps_its_promise(name: str) -> None:
    """Of what this release and earlier ones wrote it accepts something; the rest is made of that."""
    draw, known, target = Random(today()), seeds.of(name), TARGETS[name]
    with mock.patch("framehold_store.pickles.loads") as unpickled:
        assert sum(target(seed) for seed in known)
        for seed in known[:5]:
            for long in seeds.stretched(seed):
                checked(target, long)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            target(spoiled(draw, draw.choice(known))[:LONGEST])
    assert not unpickled.called
