"""The collector's full passes: made for what has grown old, and for nothing else."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from framehold.engine import gc_tuning


class Objects:
    """Stands in for the `gc` module: `collections` of the middle generation were made, `old` objects grew old."""

    def __init__(self) -> None:
        self.collections = self.old = self.passes = self.looks = 0
        self.frozen = 0

    def get_count(self) -> tuple[int, int, int]:
        return (0, 0, self.collections)

    def get_objects(self, generation: int) -> list[None]:
        assert generation == 2
        self.looks += 1
        return [None] * self.old

    def get_freeze_count(self) -> int:
        return self.frozen

    def unfreeze(self) -> None:
        self.frozen = 0

    def collect(self) -> None:
        self.passes += 1
        self.collections = 0

    def freeze(self) -> None:
        self.frozen, self.old = self.frozen + self.old, 0


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Objects:
    made = Objects()
    monkeypatch.setattr(gc_tuning, "gc", made)
    return made


def test_what_has_grown_old_is_looked_through_and_frozen(objects: Objects) -> None:
    """A node whose calls die young makes no full pass."""
    settling = gc_tuning.Collector()
    for _ in range(100):
        objects.collections += 10
        objects.old += 100
        settling.settle()
    assert objects.passes == 0
    objects.collections, objects.old = objects.collections + 4, gc_tuning.MIN_GROWTH
    settling.settle()
    assert (objects.passes, objects.old, objects.frozen) == (1, 0, gc_tuning.MIN_GROWTH)


def test_the_more_is_frozen_the_more_must_grow_old(objects: Objects) -> None:
    objects.frozen = 4 * gc_tuning.MIN_GROWTH
    settling = gc_tuning.Collector()
    objects.collections, objects.old = 100, 2 * gc_tuning.MIN_GROWTH - 1
    settling.settle()
    assert objects.passes == 0
    objects.collections, objects.old = 101, 2 * gc_tuning.MIN_GROWTH
    settling.settle()
    assert objects.passes == 1


def test_nothing_is_counted_before_enough_can_have_grown_old(objects: Objects) -> None:
    settling = gc_tuning.Collector()
    objects.collections = 3
    settling.settle()
    assert objects.looks == 0
    objects.collections = 4
    settling.settle()
    settling.settle()
    objects.collections = 5
    settling.settle()
    assert objects.looks == 1


def test_a_pass_that_somebody_else_makes_starts_the_count_again(objects: Objects) -> None:
    """The interpreter counts from the last pass of anybody's, so an author's own must not hide what comes after it."""
    settling = gc_tuning.Collector()
    for _ in range(100):
        objects.collections += 10
        settling.settle()
    objects.collections = 0
    settling.settle()
    objects.collections, objects.old = 4, gc_tuning.MIN_GROWTH
    settling.settle()
    assert objects.passes == 1


@pytest.fixture
def frozen() -> Iterator[None]:
    """The collector as in a node, with nothing of the tests in it; put back after."""
    before = gc.get_threshold()
    gc_tuning.freeze()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


def test_the_young_do_not_pile_up_while_what_was_frozen_dies(frozen: None) -> None:
    """As when a crowd answers: each frame that ends leaves an outcome, and takes more off the interpreter's count."""
    parked: list[list[list[int]]] = [[[] for _ in range(20)] for _ in range(4_000)]
    gc.collect()
    gc.freeze()
    young, most = gc_tuning.YoungCollector(), 0
    kept: list[list[int]] = []
    for number, frame in enumerate(parked):
        frame.clear()
        kept.extend([] for _ in range(15))
        young.answered()
        if number % 200 == 0:
            most = max(most, len(gc.get_objects(generation=0)))
    assert most < 20_000, f"{most} of {len(kept)} that were kept"
