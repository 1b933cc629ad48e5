"""Nodes to test, in this process or as a `framehold node` child."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import redis
import uvicorn

from framehold.http.app import Application
from framehold_cli.serve.http_protocol import HttpProtocol
from framehold_cli.serve.node import protocol
from framehold_fleet.http_server.server import close_server
from framehold_store.keys import Keys
from tests.kit.processes import DEADLINE, RUN, Child, python_path, until

KEY = secrets.token_hex(32)


class _Quiet(uvicorn.Server):
    """A uvicorn that leaves the signals of this process alone, and ends at once.

    Uvicorn looks ten times a second whether it is to end, and then waits a tenth of a second for its connections: that
    is longer than most tests."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._end = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._end.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            await close_server(server)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        for _ in range(3):
            # An idle connection is gone after a turn of the loop or two.
            await asyncio.sleep(0)
        if self.server_state.connections or self.server_state.tasks:
            return await super().shutdown(sockets)
        await self.lifespan.shutdown()

    def end(self) -> None:
        """Stop serving."""
        self.should_exit = True
        self._end.set()


class _Untuned:
    """An app of ours whose lifespan does not tune the collector for this process, which runs tests as well. A full pass
    over all that the tests have imported takes longer than most of them. What its start or its end raises is appended
    to `failures`, if there is such a list, and nothing else follows from it."""

    def __init__(self, app: Application, failures: list[Exception] | None) -> None:
        self._app, self._failures = app, failures

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            return await self._app(scope, receive, send)
        await receive()
        async with AsyncExitStack() as stack:
            with self._noting():
                await stack.enter_async_context(self._app.lifespan())
            await send({"type": "lifespan.startup.complete"})
            await receive()
            with self._noting():
                await stack.aclose()
        await send({"type": "lifespan.shutdown.complete"})

    @contextmanager
    def _noting(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self._failures is None:
                raise
            self._failures.append(error)


@asynccontextmanager
async def served(
    app: Any,
    http: Any = None,
    failures: list[Exception] | None = None,
    config: uvicorn.Config | None = None,
) -> AsyncIterator[str]:
    """Serve `app` on this loop and yield the URL of its `/mcp`. `http` is uvicorn's choice of a parser; None: what
    `framehold node` takes. `failures` is as for `_Untuned`, and `config` stands in for all options."""
    http = http or (protocol(app) if isinstance(app, Application) else HttpProtocol)
    shown = _Untuned(app, failures) if isinstance(app, Application) else app
    usual = uvicorn.Config(shown, http=http, lifespan="on", log_level="critical", timeout_graceful_shutdown=2)
    server = _Quiet(config or usual)
    # Named as TCP: else asyncio leaves Nagle's algorithm on in the sockets that it accepts, 40 ms a request.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        if isinstance(app, Application):
            app.attached.runtime.heartbeat.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await until(lambda: server.started or serving.done(), "the app's start")
            assert server.started, "the app did not start"
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            server.end()
            await serving


class FrameholdProcess(Child):
    """One `framehold` child that serves. `command` is what stands behind `framehold`."""

    def __init__(self, command: list[str], log: Path, **environment: str) -> None:
        # The SDK's log wraps its lines at the width of a terminal.
        usual = {"COLUMNS": "400", "FRAMEHOLD_KEYS": KEY, "FRAMEHOLD_DRAIN_TIMEOUT": "0"}
        env = {**os.environ, **python_path(), **usual, **environment}
        # With JSON logs nothing is printed: its log says where it serves.
        self._prints = env.get("FRAMEHOLD_LOG_FORMAT") != "json"
        super().__init__([*RUN, *command], log, env=env, announces=self._prints)
        self.url = ""
        self.took = 0.0
        """Seconds of its last start: a measure of what else the machine does."""

    async def start(self) -> None:
        """Start, and return when it serves."""
        began = time.monotonic()
        self.launch()
        line = await (asyncio.to_thread(self.announced) if self._prints else self.until(self._logged, "its start"))
        assert " serves " in line, f"it did not say where it serves: {line!r}\n{self.log()}"
        self.url = line.split(" serves ")[1].split(",")[0]
        # Its socket listens before its lifespan is through: only an answer says that it serves.
        async with httpx2.AsyncClient(verify=False, timeout=2) as http, asyncio.timeout(DEADLINE):
            while not await self._answers(http):
                assert self.alive, f"the child ended:\n{self.log()}"
                await asyncio.sleep(0.01)
        self.took = time.monotonic() - began

    def _logged(self) -> str:
        """The last line of its log that says where it serves."""
        messages = [json.loads(line)["message"] for line in self.log().splitlines() if " serves " in line]
        return messages[-1] if messages else ""

    async def _answers(self, http: httpx2.AsyncClient) -> bool:
        try:
            return (await http.get(f"{self.root}/healthz")).status_code == 200
        except httpx2.TransportError:
            return False

    @property
    def root(self) -> str:
        """Its address without a path."""
        return self.url.removesuffix("/mcp")


class NodeProcess(FrameholdProcess):
    """One `framehold node` child, on any port unless one is named."""

    def __init__(self, target: str, log: Path, port: int = 0, **environment: str) -> None:
        super().__init__(["node", target, "--port", str(port)], log, **environment)


@asynccontextmanager
async def node(target: str, folder: Path, **environment: str) -> AsyncIterator[NodeProcess]:
    """A running node; its settings are `FRAMEHOLD_*` names without the prefix, in lower case."""
    named = {f"FRAMEHOLD_{name.upper()}": value for name, value in environment.items()}
    child = NodeProcess(target, folder / "node.log", 0, **named)
    try:
        await child.start()
        yield child
    finally:
        child.stop()


def entries(path: Path) -> list[str]:
    """The lines that handlers wrote when they were entered."""
    return path.read_text().split() if path.exists() else []


Start = Callable[[], Awaitable[NodeProcess]]


class Heir(NodeProcess):
    """A node over a store of its own namespace. When it is killed its lease runs out at once, so leases can be longer
    than any pause of a busy machine, and no test waits for one."""

    def __init__(self, target: str, folder: Path, store_url: str, name: str) -> None:
        self._store_url, self._key = store_url, Keys(folder.name).node(name)
        settings = {"STORE_URL": store_url, "NAMESPACE": folder.name, "NODE_ID": name, "LEASE_TTL": "60"}
        named = {f"FRAMEHOLD_{setting}": value for setting, value in settings.items()}
        super().__init__(target, folder / "node.log", 0, **named, FRAMEHOLD_LOG_LEVEL="info")

    def kill(self) -> None:
        """End it at once, and its lease with it."""
        super().kill()
        with redis.Redis.from_url(self._store_url, protocol=2) as client:
            client.delete(self._key)


@asynccontextmanager
async def heirs(target: str, folder: Path, store_url: str) -> AsyncIterator[Start]:
    """Starts node after node over one store, each under a name of its own."""
    started: list[Heir] = []

    async def start() -> NodeProcess:
        started.append(Heir(target, folder, store_url, f"n{len(started) + 1}"))
        await started[-1].start()
        return started[-1]

    try:
        yield start
    finally:
        for child in started:
            child.stop()
