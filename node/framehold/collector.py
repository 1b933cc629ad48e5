"""The garbage collector, tuned for a process that holds many quiet frames.

Parked frames are live and old: to look through them again and again finds nothing. So what stands at the start is
frozen, the young generations are collected rarely, and the old one only here: after a lease renewal, when memory
outgrew what the last pass left, so that a pass never falls between a renewal that is due and its deadline.

How much grew old is counted, not guessed from how often the young were collected: in a node that begins and ends a
thousand calls a second nearly all of them die young, and a full pass costs as much as a hundred calls.

How many are young is counted too. The interpreter takes what dies off what came, whatever its age: while frames that
were frozen end, it sees nothing grow, and the outcomes that are kept of them would be looked through all at once, much
later."""

from __future__ import annotations

import gc
from typing import Any

from .runtime import Runtime
from .watch import Watch

GROWTH = 100_000
"""Objects that must have grown old before a full pass is worth its pause, or half of what is frozen if that is more."""
_YOUNG, _MIDDLE = 10_000, 1
"""Thirty calls under way are some 5,000 objects that come and go: not counted as young ones that stay."""
_PER_COUNT = _YOUNG * (_MIDDLE + 2)
"""Objects at most that grow old with each collection of the middle generation: the interpreter makes one when the young
were collected more than `_MIDDLE` times, and collects them with it."""
_ROUNDS = 250
"""Of how many replies one counts the young: some twenty objects stay of each call that ends."""


class Collector:
    """Makes full passes where they are worth it."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Nothing has grown old that isn't frozen."""
        self._limit = max(GROWTH, gc.get_freeze_count() // 2)
        self._old = self._looked = 0
        """How many objects had grown old at the last look, and after how many collections that was."""

    def settle(self) -> None:
        """One full pass, if enough has grown old since the last."""
        collections = gc.get_count()[2]
        if collections < self._looked:
            # Somebody else made a full pass, and with it the count began anew.
            self._looked = 0
        if self._old + (collections - self._looked) * _PER_COUNT < self._limit:
            return
        self._old, self._looked = len(gc.get_objects(generation=2)), collections
        if self._old < self._limit:
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._begin()


class Young(Watch):
    """Has the young looked through before there are too many of them."""

    def __init__(self) -> None:
        self._rounds = 0

    def answered(self, *_: Any) -> None:
        self._rounds += 1
        if self._rounds % _ROUNDS == 0 and len(gc.get_objects(generation=0)) > _YOUNG:
            gc.collect(1)


def tune(runtime: Runtime) -> None:
    """Set the collector up for a node. For processes of our own only: the setting is the whole process's."""
    calm()
    runtime.after_renewal.append(Collector().settle)
    runtime.watches.add(Young())


def calm() -> None:
    """What stands now is not looked through again, and what comes only rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, 1_000_000)
