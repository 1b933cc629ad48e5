"""New lies in the store each day, for some seconds: no node ends, nobody hears of an exception, and a call that nobody
lies about completes."""

from __future__ import annotations

from . import store, today

SECONDS = 10.0


def test_a_fleet_outlives_whatever_stands_in_its_store() -> None:
    done = store.run(today(), SECONDS)
    assert done.found == [] and done.tried > 1
