"""The garbage collector, tuned for a process that holds many quiet frames.

Parked frames are live and old: to look through them again and again finds nothing. So what stands at the start is
frozen, the young generations are collected rarely, and the old one only here: after a lease renewal, when memory
outgrew what the last pass left, so that a pass never falls between a renewal that is due and its deadline."""

from __future__ import annotations

import gc

from .runtime import Runtime

GROWTH = 100_000
"""Objects that must have grown old before a full pass is worth its pause, or half of what is frozen if that is more."""
_PER_COUNT = 5 * 5_000


def tune(runtime: Runtime) -> None:
    """Set the collector up for a node. For processes of our own only: the setting is the whole process's."""
    calm()
    runtime.after_renewal.append(settle)


def calm() -> None:
    """What stands now is not looked through again, and what comes only rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 5, 1_000_000)


def settle() -> None:
    """One full pass, if enough has grown old since the last."""
    if gc.get_count()[2] * _PER_COUNT < max(GROWTH, gc.get_freeze_count() // 2):
        return
    gc.unfreeze()
    gc.collect()
    gc.freeze()
