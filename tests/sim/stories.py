"""Schedules that tell what the protocol is for, one each. `python -m tests.sim.stories` writes their transcripts anew.

The transcripts are kept beside the code, so that whoever changes a rule reads in the diff what becomes of the story.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .plan import Intent, Mischief, Plan
from .report import story
from .weather import Fault

FOLDER = Path(__file__).parent / "transcripts"
FULL = ("full",) * 6


def _plan(
    program: str,
    *happenings: Fault | Mischief,
    marked: bool = True,
    styles: tuple[str, ...] = FULL,
    rehearses: bool = False,
    restores: bool = False,
) -> Plan:
    return Plan(
        seed=32,
        nodes=("a", "b"),
        rates=(1.0, 1.0, 1.0),
        clients=(Intent(0.1, program, marked, "a", styles),),
        faults=tuple(item for item in happenings if isinstance(item, Fault)),
        mischief=tuple(item for item in happenings if isinstance(item, Mischief)),
        rehearses=rehearses,
        restores=restores,
    )


STORIES = {
    "takeover": _plan("k1; o1; k2", Fault(0.4, "crash", "a", 12.0)),
    "unmarked_dies_with_its_node": _plan("k1; k2", Fault(0.4, "crash", "a", 3.0), marked=False),
    "lapse_and_verify": _plan(
        "k1; k2",
        Fault(0.2, "cut", "a>store", 1.4),
        Fault(0.2, "cut", "client>a", 1.6),
        Fault(0.2, "cut", "client>b", 1.6),
        marked=False,
    ),
    "paused_owner_is_fenced": _plan("k1; i1; k2", Fault(0.29, "pause", "a", 2.5)),
    "duplicates_at_two_nodes": _plan(
        "k1; o1; k2", Mischief(0.28, 0, "same", "b"), Mischief(0.285, 0, "same", "a"), Mischief(0.29, 0, "same", "b")
    ),
    "conflict": _plan("k1; k2", Mischief(0.16, 0, "other", "b"), Mischief(0.5, 0, "full", "a", 1)),
    "partial_answers": _plan("k1+k2; k3", styles=("partial", "extra", "none", "full")),
    "changed_code_diverges": _plan("k1; o1; k2", Fault(0.4, "change", "a", 2.5), Fault(0.4, "crash", "b", 2.4)),
    "passed_on_to_the_very_code": _plan(
        "k1; o1; k2", Fault(0.4, "change", "a", 2.5), Fault(0.4, "cut", "client>b", 2.6)
    ),
    "older_release_can_not_read": _plan(
        "k1; k2",
        Fault(0.0, "upgrade", "a"),
        Fault(0.0, "cut", "client>b", 1.5),
        Fault(1.42, "crash", "a", 9.0),
        Fault(4.8, "upgrade", "b"),
    ),
    "rehearsed": _plan("k1; o1; k2", rehearses=True),
    "effect_waits_for_its_verification": _plan(
        "k1; o1; k2",
        Fault(0.284, "pause", "a", 0.63),
        Fault(0.5, "lapse", "a"),
        Fault(0.3, "pause", "b", 0.65),
    ),
    "drained": _plan("k1; o1; k2", Fault(0.4, "drain", "a", 3.0), Mischief(0.45, 0, "full", "b")),
    "poison": _plan("k1; x1; k2"),
    "poison_paused": replace(_plan("k1; x1; k2"), poison=3),
    "split_brain": _plan("k1; i1; k2", Fault(0.2, "failover", "a", 1.5, 0.01), Fault(0.4, "cut", "client>a", 1.5)),
    "drained_after_the_store_was_emptied": _plan(
        "k1; o1; k2", Fault(0.4, "empty", "store"), Fault(0.42, "drain", "a", 3.0), restores=True
    ),
    "killed_after_the_heal": _plan(
        "k1; k2", Fault(0.4, "empty", "store"), Fault(0.9, "crash", "a", 3.0), restores=True
    ),
    "store_went_back": _plan("k1; i1; k2", Fault(0.3, "rollback", "store", 0.0, 0.2)),
}

POISON = "k1; x1; k2"
POISON_BESIDE_OTHERS = replace(
    _plan(POISON),
    clients=tuple(
        Intent(0.1 + 0.01 * place, program, True, "a", FULL)
        for place, program in enumerate(
            ("k1; o1; o2; o3; k2", "k1; i1; i2; i3; o1; k2", "k1; o1; i1; i2; i3; k2", "k1; k2", POISON)
        )
    ),
    poison=3,
)
"""A handler that ends its processes, beside others. It is no story: its seed varies."""


def told(name: str) -> str:
    """The transcript of a story.

    Raises:
        AssertionError: an invariant does not hold in it.
    """
    text, held = story(STORIES[name])
    assert held, text
    return text


if __name__ == "__main__":
    for title in STORIES:
        (FOLDER / f"{title}.txt").write_text(told(title))
