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


def _one_request(at: float, *faults: Fault) -> Plan:
    """An unmarked call that is parked on node a, and of which nothing is heard but its answers, at node b, at `at`."""
    cuts = (Fault(0.2, "cut", "client>a", 2.5), Fault(0.2, "cut", "client>b", at - 0.205))
    return _plan("k1; k2", *cuts, *faults, Mischief(at, 0, "same", "b"), marked=False, restores=True)


def _two_requests(first: float, second: float, *faults: Fault) -> Plan:
    """A marked call that is parked on node a. Its answers come to node a, which is about to lose its lease, and then to
    node b. An effect follows them."""
    cuts = (Fault(0.2, "cut", "client>a", first - 0.21), Fault(0.2, "cut", "client>b", first - 0.21))
    return _plan("k1; i1; k2", *cuts, *faults, Mischief(first, 0, "same", "a"), Mischief(second, 0, "same", "b"))


APART = Fault(0.25, "cut", "b>store", 0.15)
"""One renewal of node b is lost, so its heartbeats come between those of node a from then on."""

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
    "an_older_state_is_read_before_the_heartbeat": _one_request(
        2.08, APART, Fault(2.05, "rollback", "store", 0.0, 0.7)
    ),
    "renewed_after_a_silence_before_the_other": _one_request(2.13, APART, Fault(1.23, "outage", "store", 0.81)),
    "woken_before_the_other": _one_request(1.92, Fault(0.5, "pause", "a", 1.7), Fault(0.5, "pause", "b", 1.4)),
    "one_renewal_was_lost": _one_request(2.41, APART, Fault(2.055, "rollback", "store", 0.0, 0.03)),
    "an_effect_waits_beyond_a_lapse": _two_requests(
        0.85,
        1.0,
        Fault(0.33, "cut", "a>store", 0.02),
        Fault(0.871, "cut", "a>store", 0.004),
        Fault(0.86, "slow", "store>a", 0.04, 0.2),
    ),
    "a_window_ends_before_its_lease": _two_requests(
        1.3,
        1.32,
        Fault(0.336, "slow", "store>a", 0.02, 0.25),
        Fault(0.4, "cut", "a>store", 0.9),
        Fault(1.315, "slow", "store>a", 0.03, 0.07),
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
