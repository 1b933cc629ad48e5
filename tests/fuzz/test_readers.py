"""New bodies each day, for some seconds: whatever the SDK reads, the router and a node read alike."""

from __future__ import annotations

from . import readers, today

SECONDS = 10.0


def test_router_and_node_read_each_body_as_the_sdk_does() -> None:
    done = readers.run(today(), SECONDS)
    assert done.found == [] and done.tried > 300
