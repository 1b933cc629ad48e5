"""The simulation is clean, and each rule that is taken away turns it red."""

from __future__ import annotations

import pytest

from .mutations import MASKED, RED, mutated
from .plan import draw
from .report import INTERESTING, run_part, smallest, story
from .world import play

CLEAN = 8000
"""Schedules of the clean run: some twenty seconds."""

BOUND = 4000
"""Within how many schedules a mutation must be found; the slowest takes some eight hundred."""


def test_every_invariant_holds_in_every_schedule() -> None:
    """No seed breaks an invariant, and everything that makes a schedule interesting has happened."""
    counts, failed = run_part(1, CLEAN, None)
    assert failed is None, story(smallest(failed))[0]
    missing = [name for name in INTERESTING if not counts[name]]
    assert not missing


@pytest.mark.parametrize("name", RED)
def test_a_rule_taken_away_turns_the_simulation_red(name: str) -> None:
    """Each mutation that nothing masks is found."""
    assert run_part(1, BOUND, name)[1] is not None


@pytest.mark.parametrize("name", MASKED)
def test_a_masked_mutation_stays_green_and_says_why(name: str) -> None:
    """What another rule makes up for is written down with its reason; if it turns red, it belongs to RED."""
    reason, _ = MASKED[name]
    assert reason
    counts, failed = run_part(1, 500, name)
    assert failed is None and counts["schedules"] == 500


def test_owner_and_epoch_fence_mask_each_other() -> None:
    """Either alone refuses what the other would; without both, histories go back."""
    assert {"owner-fence-off", "epoch-fence-off"} <= set(MASKED)
    assert "both-fences-off" in RED


def test_a_failing_schedule_shrinks_to_a_transcript() -> None:
    """What is left of a failing schedule still fails, is no longer than before, and reads line by line."""
    _, seed = run_part(1, BOUND, "claim-ignores-the-mark")
    assert seed is not None
    plan = smallest(seed, "claim-ignores-the-mark")
    before = draw(seed)
    assert len(plan.faults) <= len(before.faults) and len(plan.clients) == 1 and not plan.mischief
    text, held = story(plan, "claim-ignores-the-mark")
    assert not held
    assert "Claimed -> REBUILDING: enter the handler at epoch 2" in text
    assert text.strip().splitlines()[-1].split()[1:3] == ["CHECK", "I6"]


def test_a_seed_always_tells_the_same_story() -> None:
    """A schedule depends on its seed and on nothing else, or no failure could be replayed."""
    assert story(draw(7)) == story(draw(7))


def test_a_mutation_leaves_no_trace() -> None:
    """After a mutated run the core is whole again."""
    with mutated("both-fences-off"):
        pass
    assert play(draw(228))[1] is None
