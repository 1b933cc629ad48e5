"""Schedules that were made, not drawn: each shows something that hardly any drawn one would."""

from __future__ import annotations

from dataclasses import replace

from .plan import Intent, Mischief, Plan
from .weather import Fault

FULL = ("full",) * 6


def _plan(
    program: str,
    *happenings: Fault | Mischief,
    marked: bool = True,
    restores: bool = False,
) -> Plan:
    return Plan(
        seed=32,
        nodes=("a", "b"),
        rates=(1.0, 1.0, 1.0),
        clients=(Intent(0.1, program, marked, "a", FULL),),
        faults=tuple(item for item in happenings if isinstance(item, Fault)),
        mischief=tuple(item for item in happenings if isinstance(item, Mischief)),
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
    "poison": _plan("k1; x1; k2"),
    "poison_paused": replace(_plan("k1; x1; k2"), poison=3),
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
