"""Serves an app in a child process, or a server on a fleet; yields the URL.

`python -m tests.conformance.serving MODULE:NAME` is the child: an ASGI app on a free port of 127.0.0.1. The socket
listens before its URL is printed, so whoever has read that can connect. httptools is named because it hands header
values on unstripped, which a server must survive.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from uvicorn.importer import import_from_string

from tests.kit.fleet import Fleet
from tests.kit.processes import Child, python_path
from tests.kit.redis_server import RedisServer, running


@contextmanager
def serving(target: str, log: Path) -> Iterator[str]:
    """Serve an app ("module:name") in a child."""
    command = [sys.executable, "-m", "tests.conformance.serving", target]
    child = Child(command, log, env={**os.environ, **python_path()}, announces=True)
    child.launch()
    try:
        yield child.announced(30)
    finally:
        child.stop()


@contextmanager
def fleet_serving(nodes: int, target: str, folder: Path) -> Iterator[str]:
    """Serve a server on so many nodes behind a router, over a Redis."""
    folder.mkdir()
    with running(RedisServer()) as redis, asyncio.Runner() as runner:
        made = Fleet(folder, redis, target, lease_ttl="5", log_level="warning")
        try:
            runner.run(made.add_nodes(*(f"node-{number}" for number in range(1, nodes + 1))))
            yield runner.run(made.add_router()).url
        finally:
            made.stop()


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    config = uvicorn.Config(
        import_from_string(sys.argv[1]),
        http="httptools",
        lifespan="on",
        log_level="warning",
        timeout_graceful_shutdown=2,
    )
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    uvicorn.Server(config).run(sockets=[listener])
