"""Looks for a schedule that a mutation breaks: first at the seed where it was found last.

`python -m tests.sim.found` writes these seeds anew, into `found.json`. Run it when a test searches long: the core has
changed, and other schedules show the mutation.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from .mutations import RED, mutated
from .plan import draw
from .stories import STORIES
from .world import play

BOUND = 12_000
"""Within how many schedules a mutation must be found; the slowest takes some eight thousand."""

WRITERS = "29"
"""The rule on those who write the store: where it is broken, somebody does in each schedule that is played."""

FIRST = {
    "cut-record-entered": 7_262_286,
    "late-retry-decided-early": 52_487,
}
"""The seed from which a mutation is looked for that shows in few schedules only, drawn as by `make sim`."""

TOLD = {
    "own-lease-is-enough": "an_older_state_is_read_before_the_heartbeat",
    "absence-believed-after-a-silence": "renewed_after_a_silence_before_the_other",
    "absence-believed-after-a-lapse": "woken_before_the_other",
    "name-given-up-by-a-lapse": "one_renewal_was_lost",
    "same-incarnation-after-a-lapse": "an_effect_waits_beyond_a_lapse",
    "window-counts-from-the-reply": "a_window_ends_before_its_lease",
}
"""The story that shows a mutation which hardly any drawn schedule would."""

FOUND_BY = {
    "I1": "both-fences-off",
    "I2": "position-off",
    "I3": "gate-off",
    "I4": "digest-off",
    "I5": "effect-before-intent",
    "I6": "claim-ignores-the-mark",
    "I7": "no-second-asking",
    "I8": "boundary-off",
    "I9": "no-room-ignored",
    "I10": "head-of-anybody",
}
"""A mutation for each invariant of docs/protocol.md, which that invariant finds."""

_FILE = Path(__file__).with_name("found.json")


def find(mutation: str, invariant: str = "") -> int | None:
    """The seed of a schedule in which the mutation breaks the invariant (by default, any invariant).

    None if there is none, neither at the seed that is kept nor among those from the first on.
    """
    if mutation in TOLD:
        plan = STORIES[TOLD[mutation]]
        with mutated(mutation):
            return plan.seed if play(plan)[1] is not None else None
    kept = _kept().get(_key(mutation, invariant))
    if kept is not None and _breaks(kept, 1, mutation, invariant) is not None:
        return kept
    return _breaks(FIRST.get(mutation, 1), BOUND, mutation, invariant)


def _breaks(first: int, runs: int, mutation: str, invariant: str) -> int | None:
    of_the_store = mutation in RED and RED[mutation].rule == WRITERS and mutation not in FIRST
    with mutated(mutation):
        for seed in range(first, first + runs):
            violation = play(draw(seed, 1.0) if of_the_store else draw(seed))[1]
            if violation is not None and str(violation).startswith(f"{invariant} " if invariant else ""):
                return seed
    return None


@cache
def _kept() -> dict[str, int]:
    found: dict[str, int] = json.loads(_FILE.read_text(encoding="utf-8"))
    return found


def _key(mutation: str, invariant: str) -> str:
    return f"{invariant} {mutation}".strip()


def _write() -> None:
    """Keep the seed of each mutation that is found."""
    questions = [*((name, "") for name in RED), *((name, invariant) for invariant, name in FOUND_BY.items())]
    found = {_key(*question): find(*question) for question in questions}
    kept = {key: seed for key, seed in found.items() if seed is not None}
    _FILE.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
