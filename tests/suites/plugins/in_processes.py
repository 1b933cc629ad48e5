"""A plugin of pytest: mcp's own tests, but a server that a test connects to in memory runs in processes of its own.

The processes are forks of the test's process, so they have the server that the test made. What a handler leaves in
variables of the test stays in its process: tests that look there fail in both modes, `served` and `fleet`.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import logging
import multiprocessing
import os
import secrets
import socket
import sys
import time
import urllib.error
import urllib.request
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread
import httpx2
import mcp.client.client as clients
import placed
import uvicorn
from blockbuster import BlockBuster
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from framehold.config import Settings
from framehold_cli.local.ports import free
from framehold_cli.serve import node, router
from framehold_router.config import RouterSettings

HOST = "127.0.0.1"
NODES = ("node-1", "node-2")
_START = 30.0
"""Seconds in which the processes of one server must be ready."""
_FORK = multiprocessing.get_context("fork")


class Started(NamedTuple):
    """The processes of one server, and where it answers."""

    url: str
    processes: list[BaseProcess]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()


def connector(server: Server[Any]) -> Callable[..., Any]:
    """In place of the SDK's connector: reaches the server over HTTP."""

    async def connect(exit_stack: AsyncExitStack, mode: str, raise_exceptions: bool) -> JSONRPCDispatcher[Any]:
        placed.placed[placed.MODE] += 1
        started = await anyio.to_thread.run_sync(_start, placed.author_of(server))
        exit_stack.callback(started.end)
        patient = httpx2.Timeout(30, read=60)
        http = await exit_stack.enter_async_context(httpx2.AsyncClient(timeout=patient))
        streams = streamable_http_client(f"{started.url}/mcp", http_client=http)
        return JSONRPCDispatcher(*await exit_stack.enter_async_context(streams))

    return connect


def _start(server: Any) -> Started:
    """Start the processes, and wait until they serve."""
    started = _fleet(server) if placed.MODE == "fleet" else _served(server)
    is_ready = _knows_nodes if placed.MODE == "fleet" else _listens
    end = time.monotonic() + _START
    while not is_ready(started.url):
        if time.monotonic() > end or not all(process.is_alive() for process in started.processes):
            started.end()
            raise RuntimeError(
                f"the processes of {server.name} are not ready; see the logs in {os.environ['SUITE_LOGS']}"
            )
        time.sleep(0.05)
    return started


def _served(server: Any) -> Started:
    port = free()

    def serve() -> None:
        uvicorn.run(server.streamable_http_app(), host=HOST, port=port, log_level="warning")

    return Started(f"http://{HOST}:{port}", [_forked(serve, f"sdk-{port}")])


def _fleet(server: Any) -> Started:
    """Two nodes of the server and a router, in a namespace of their own."""
    shared: dict[str, Any] = {
        "store_url": os.environ["SUITE_STORE"],
        "namespace": secrets.token_hex(8),
        "keys": (urlsafe_b64encode(secrets.token_bytes(32)).decode(),),
    }

    def serve(name: str) -> None:
        node.run(server, Settings(node_id=name, **shared), HOST, 0)

    processes = [_forked(partial(serve, name), f"{shared['namespace']}-{name}") for name in NODES]
    port = free()
    front = _forked(lambda: router.run(RouterSettings(**shared), HOST, port), f"{shared['namespace']}-router")
    return Started(f"http://{HOST}:{port}", [*processes, front])


def _forked(serve: Callable[[], None], name: str) -> BaseProcess:
    """Run `serve` in a fork of this process, which writes to a log of its own."""
    log = Path(os.environ["SUITE_LOGS"]) / f"{name}.log"
    process = _FORK.Process(target=_alone, args=(serve, log), daemon=True)
    with warnings.catch_warnings():
        # Newer releases of Python warn about forks of processes with threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    return process


def _alone(serve: Callable[[], None], log: Path) -> None:
    """What the fork does: it leaves what belongs to the test, and serves."""
    # The test's objects stay untouched by the collector: so their memory is not copied.
    gc.freeze()
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout = sys.stderr = os.fdopen(output, "w", buffering=1)
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    logging.root.handlers.clear()
    asyncio.set_event_loop(None)
    serve()


def _listens(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, int(url.rpartition(":")[2]))) == 0


def _knows_nodes(url: str) -> bool:
    """Whether the router sends requests to both nodes."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/ring", timeout=2) as response:
            nodes = json.load(response)["nodes"]
    except (OSError, urllib.error.URLError):
        return False
    return {found["node_id"] for found in nodes if found["points"]} == set(NODES)


# What nodes and routers import when they start is imported here once, and not in each fork.
for _module in ("framehold_store.servers", "redis.asyncio", "uvicorn.protocols.http.httptools_impl", "uvloop"):
    importlib.import_module(_module)
placed.remember_authors()
clients._connect_inproc = connector
# The SDK's tests refuse blocking calls on an event loop. The forks read files, and have the loops of servers.
BlockBuster.activate = lambda self: None
