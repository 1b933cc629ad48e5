"""The garbage collector, tuned for a process that holds many quiet frames.

Parked frames are live and old: to scan them again and again finds nothing. So the objects at the start are frozen, and
the young generations are collected rarely. The old generation is collected only here: right after a lease renewal, and
only if enough objects have grown old. So a full pass never comes between a renewal that is due and its deadline.

Old objects are counted, not estimated from the number of young collections. In a node that begins and ends a thousand
calls a second nearly all objects die young, and a full pass costs as much as a hundred calls.

Young objects are counted, too. The interpreter subtracts deallocations from allocations, whatever the age of the
objects. While frozen frames end, it sees no growth, and the outcomes that are kept of them would be collected all at
once, much later."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from .observer import Observer

if TYPE_CHECKING:
    from .runtime import Runtime

MIN_GROWTH = 100_000
"""How many objects must have grown old before a full pass; half the number of frozen objects if that is more."""
_YOUNG, _MIDDLE = 10_000, 1
"""Thresholds of the young and of the middle generation. Thirty running calls have some 5,000 short-lived objects: these
alone must not start a collection."""
_MAX_AGED = _YOUNG * (_MIDDLE + 2)
"""Most objects that grow old with one collection of the middle generation. The interpreter starts one after the young
generation was collected more than `_MIDDLE` times, and collects the young one with it."""
_REPLIES_PER_COUNT = 500
"""Young objects are counted once in this many replies. About twenty objects stay of each call that ends."""


class Collector:
    """Makes full passes of the garbage collector when enough objects have grown old."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """Begin to count after a full pass: all old objects are frozen."""
        self._limit = max(MIN_GROWTH, gc.get_freeze_count() // 2)
        self._old = self._looked = 0
        """How many objects had grown old at the last count, and how many collections there had been by then."""

    def settle(self) -> None:
        """One full pass, if enough has grown old since the last."""
        collections = gc.get_count()[2]
        if collections < self._looked:
            # Other code made a full pass, which set the interpreter's count of collections back to 0.
            self._looked = 0
        if self._old + (collections - self._looked) * _MAX_AGED < self._limit:
            return
        self._old, self._looked = len(gc.get_objects(generation=2)), collections
        if self._old < self._limit:
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        self._begin()


class YoungCollector(Observer):
    """Collects young objects before there are too many of them."""

    def __init__(self) -> None:
        self._rounds = 0

    def answered(self, *_: Any) -> None:
        self._rounds += 1
        if self._rounds % _REPLIES_PER_COUNT == 0 and len(gc.get_objects(generation=0)) > _YOUNG:
            gc.collect(1)


def tune(runtime: Runtime) -> None:
    """Tune the garbage collector for a node. The setting applies to the whole process, so only processes that Framehold
    started itself may call this."""
    freeze()
    runtime.after_renewal.append(Collector().settle)
    runtime.observers.add(YoungCollector())


def freeze() -> None:
    """Freeze all present objects, so that they are never scanned again, and have new ones collected rarely."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, 1_000_000)
