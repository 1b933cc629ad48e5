"""New streams of requests each day, for some seconds, at a router: no node gets anything but whole requests in one
form, and whoever else accepts one takes it for the same."""

from __future__ import annotations

from . import front, today

SECONDS = 10.0


def test_nothing_is_smuggled_past_a_router() -> None:
    done = front.run(today(), SECONDS)
    assert done.found == [] and done.tried > 200
