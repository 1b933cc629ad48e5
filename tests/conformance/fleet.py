"""The example server on a fleet: nodes, a router and a Redis, each a process of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conformance.node_cache import CACHE
from tests.fleet.fleet import Fleet
from tests.store.server import RedisServer

TARGET = "tests.conformance.server:mcp"


@contextmanager
def fleet_serving(nodes: int) -> Iterator[str]:
    """Serve TARGET on `nodes` nodes and yield the URL of their router."""
    folder = CACHE / "fleet"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    redis = RedisServer()
    redis.start()
    made = Fleet(folder, redis, TARGET, lease_ttl="5", log_level="warning")
    try:
        with asyncio.Runner() as runner:
            runner.run(made.add_nodes(*(f"node-{number}" for number in range(1, nodes + 1))))
            yield runner.run(made.add_router()).url
    finally:
        made.stop()
        redis.remove()
