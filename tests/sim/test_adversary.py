"""Somebody writes the store, and has no key (docs/protocol.md, rule 29)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from .adversary import ACTS, Act
from .plan import draw
from .report import story
from .stories import STORIES
from .world import play

NAMED = {"outcome", "expired", "lost", "stuck", "forgotten", "diverged", "unreadable", "conflict", "already-answered"}


def test_schedules_with_a_writer_of_the_store_are_clean_and_see_each_act() -> None:
    """Each call that was left alone is whole, the others keep what the law's table says, and every client is told how
    its call ended."""
    counts: Counter[str] = Counter()
    for seed in range(1, 161):
        plan = draw(seed, 1.0)
        world, violation = play(plan)
        assert violation is None, story(plan)[0]
        counts.update(world.counts)
    assert {kind for kind in ACTS if not counts[f"act {kind}"]} == set()
    assert {name.removeprefix("ended ") for name in counts if name.startswith("ended ")} <= NAMED


@pytest.mark.parametrize("kind", ("lease", "old_lease", "lease_of_another", "no_lease"))
def test_no_lease_that_was_changed_loses_a_call_or_ends_a_process(kind: str) -> None:
    """A lapse at most: the call goes on, whatever stands there."""
    for roll in range(40):
        story_ = replace(STORIES["takeover"], acts=(Act(0.2 + 0.02 * roll, kind, roll), Act(1.3, kind, roll)))
        world, violation = play(story_)
        assert violation is None and world.counts["ended outcome"] == 1
