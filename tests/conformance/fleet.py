"""A server on a fleet: nodes, a router and a Redis, each a process of its own."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.conformance.node_cache import CACHE
from tests.fleet.fleet import Fleet
from tests.store.server import RedisServer, running

TARGET = "tests.conformance.server:mcp"


@contextmanager
def fleet_serving(nodes: int, target: str = TARGET, folder: Path = CACHE / "fleet") -> Iterator[str]:
    """Serve `target` on `nodes` nodes, whose logs are in `folder`, and yield the URL of their router."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with running(RedisServer()) as redis, asyncio.Runner() as runner:
        made = Fleet(folder, redis, target, lease_ttl="5", log_level="warning")
        try:
            runner.run(made.add_nodes(*(f"node-{number}" for number in range(1, nodes + 1))))
            yield runner.run(made.add_router()).url
        finally:
            made.stop()
