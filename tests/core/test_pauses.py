"""What processes know of paused tools, when the store forgets."""

from __future__ import annotations

import random

import pytest

from framehold_core.pauses import lacking


@pytest.mark.parametrize("seed", range(200))
def test_what_is_known_last_comes_back_in_any_order(seed: int) -> None:
    """Pauses and resumes at any process, reads that some of them miss, and a store that is emptied at any time, or
    restored: when each has read again, the last order stands in the store and in each process."""
    rng = random.Random(seed)
    store: dict[str, int] = {}
    older: dict[str, int] = {}
    last: dict[str, int] = {}
    known: list[dict[str, int]] = [{}, {}, {}]

    def read(mine: dict[str, int]) -> None:
        store.update({name: mine[name] for name in lacking(mine, store)})
        mine.update(store)

    for now in range(1, 40):
        mine = rng.choice(known)
        match rng.choice(("order", "order", "read", "read", "empty", "restore", "copy")):
            case "order":
                tool = rng.choice("ab")
                # Its parity says whether it pauses or resumes; a version is higher than all that are known of.
                last[tool] = store[tool] = mine[tool] = max(now, store.get(tool, 0) + 1, mine.get(tool, 0) + 1)
            case "read":
                read(mine)
            case "empty":
                store.clear()
            case "restore":
                store = dict(older)
            case "copy":
                older = dict(store)
    for mine in (*known, *known):
        read(mine)
    assert known == [last, last, last] and store == last


def test_what_can_not_be_read_stands() -> None:
    assert lacking({"a": 5, "b": 5, "c": None, "d": 5}, {"a": None, "b": 4, "d": 5}) == ["b"]
