"""Nodes to test, in this process or as a `framehold node` child, and a client that sees the wire."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import uvicorn
from mcp.types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)

from framehold.serving import Application

ROOT = Path(__file__).resolve().parents[2]
VERSION = "2026-07-28"
KEY = secrets.token_hex(32)
EVERYTHING = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
_RUN = "from framehold.cli import main; main()"
DEADLINE = 20.0
"""Seconds after which something that should have happened has not."""


async def until(holds: Callable[[], object], what: str, deadline: float = DEADLINE) -> Any:
    """Look again and again until `holds()` is true, and give that back."""
    end = time.monotonic() + deadline
    while not (found := holds()):
        assert time.monotonic() < end, f"{what}: not within {deadline:g} s"
        await asyncio.sleep(0.01)
    return found


class _Quiet(uvicorn.Server):
    """A uvicorn that leaves the signals of this process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


_served = itertools.count(1)
_FROZEN = 20


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """Serve `app` on this loop and yield the URL of its `/mcp`. The collector's settings are put back after."""
    config = uvicorn.Config(app, http="httptools", lifespan="on", log_level="critical", timeout_graceful_shutdown=2)
    server, threshold = _Quiet(config), gc.get_threshold()
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
            server.should_exit = True
            await serving
            # A full pass over all that the tests have imported takes longer than most of them: what a node froze is
            # let go after some.
            if next(_served) % _FROZEN == 0:
                gc.unfreeze()
            gc.set_threshold(*threshold)


@dataclass
class Heard:
    """One response: its status and headers, the notifications that came first, and the reply itself."""

    status: int
    headers: Mapping[str, str]
    message: dict[str, Any]
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def streamed(self) -> bool:
        return self.headers["content-type"].startswith("text/event-stream")

    @property
    def result(self) -> dict[str, Any]:
        assert "result" in self.message, self.message
        result: dict[str, Any] = self.message["result"]
        return result

    @property
    def code(self) -> int:
        assert "error" in self.message, self.message
        code: int = self.message["error"]["code"]
        return code

    @property
    def text(self) -> str:
        """What a finished tool says, or an error's message."""
        if "error" in self.message:
            return str(self.message["error"]["message"])
        return " ".join(block.get("text", "") for block in self.result["content"])

    @property
    def token(self) -> str:
        assert self.result["resultType"] == "input_required", self.result
        return str(self.result["requestState"])

    @property
    def asked(self) -> dict[str, dict[str, Any]]:
        """The questions by key."""
        assert self.result["resultType"] == "input_required", self.result
        found: dict[str, dict[str, Any]] = self.result["inputRequests"]
        return found

    @property
    def messages(self) -> list[str]:
        """The questions' texts."""
        return [question["params"]["message"] for question in self.asked.values()]

    def accept(self, **content: Any) -> dict[str, Any]:
        """The same accepted form for each question."""
        return {key: accepted(**content) for key in self.asked}


def accepted(**content: Any) -> dict[str, Any]:
    """A form that was filled in."""
    return {"action": "accept", "content": content}


class Envelope(NamedTuple):
    """A request's body and headers."""

    body: dict[str, Any]
    headers: dict[str, str]


class Caller:
    """A client that sends one request at a time as it is told to, and hides nothing of the response."""

    def __init__(self, url: str, has: Mapping[str, Any] = EVERYTHING) -> None:
        self.url, self.has = url, has
        self._ids = itertools.count(1)
        self._http = httpx2.AsyncClient(timeout=DEADLINE, limits=httpx2.Limits(max_connections=300))

    async def __aenter__(self) -> Caller:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def call(self, tool: str, **options: Any) -> Heard:
        """`tools/call`, its first round. Options as for `send`, and `arguments`."""
        return await self.send("tools/call", {"name": tool, "arguments": options.pop("arguments", {})}, **options)

    async def retry(self, tool: str, token: str, answers: Mapping[str, Any], **options: Any) -> Heard:
        """`tools/call` with answers and a token."""
        params = {"name": tool, "arguments": options.pop("arguments", {})}
        return await self.send(
            "tools/call", {**params, "requestState": token, "inputResponses": dict(answers)}, **options
        )

    async def send(self, method: str, params: dict[str, Any], **options: Any) -> Heard:
        """One request; options as for `envelope`."""
        envelope = self.envelope(method, params, **options)
        return _heard(await self._http.post(self.url, json=envelope.body, headers=envelope.headers))

    def envelope(
        self,
        method: str,
        params: dict[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        has: Mapping[str, Any] | None = None,
        request_id: int | str | None = None,
    ) -> Envelope:
        """A request as it is sent. `meta` is added to its `_meta`, `has` replaces the capabilities that the client
        declares."""
        identity = {
            PROTOCOL_VERSION_META_KEY: VERSION,
            CLIENT_INFO_META_KEY: {"name": "caller", "version": "1"},
            CLIENT_CAPABILITIES_META_KEY: dict(self.has if has is None else has),
        }
        told = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": method,
        }
        if name := params.get("name") or params.get("uri"):
            told["mcp-name"] = name
        number = next(self._ids) if request_id is None else request_id
        whole = {**params, "_meta": {**identity, **(meta or {})}}
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": whole}
        return Envelope(body, {**told, **(headers or {})})


def _heard(response: httpx2.Response) -> Heard:
    if not response.headers["content-type"].startswith("text/event-stream"):
        return Heard(response.status_code, response.headers, response.json())
    lines = response.text.splitlines()
    *events, last = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]
    return Heard(response.status_code, response.headers, last, events)


class FrameholdProcess:
    """One `framehold` child that serves. Ended by its process id. `command` is what stands behind `framehold`."""

    def __init__(self, command: list[str], log: Path, **environment: str) -> None:
        self._command = [sys.executable, "-c", _RUN, *command]
        self._log, self._environment = log, environment
        self._child: subprocess.Popen[bytes] | None = None
        self.url = ""

    async def start(self) -> None:
        """Start, and return when it serves."""
        python_path = os.pathsep.join(entry for entry in sys.path if entry)
        # The SDK's log wraps its lines at the width of a terminal.
        usual = {"PYTHONPATH": python_path, "COLUMNS": "400", "FRAMEHOLD_KEYS": KEY, "FRAMEHOLD_DRAIN_TIMEOUT": "0"}
        environment = {**os.environ, **usual, **self._environment}
        with self._log.open("ab") as log:
            self._child = subprocess.Popen(self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, env=environment)
        assert self._child.stdout is not None
        line = (await asyncio.to_thread(self._child.stdout.readline)).decode()
        assert " serves " in line, f"it did not say where it serves: {line!r}\n{self.log()}"
        self.url = line.split(" serves ")[1].split(",")[0]
        await until(self._answers, "the child's start")

    def _answers(self) -> bool:
        """Its socket listens before its lifespan is through: only an answer says that it serves."""
        assert self._child is not None and self._child.poll() is None, f"the child ended:\n{self.log()}"
        try:
            return httpx2.get(f"{self.root}/healthz", timeout=0.2).status_code == 200
        except httpx2.TransportError:
            return False

    @property
    def root(self) -> str:
        """Its address without a path."""
        return self.url.removesuffix("/mcp")

    def log(self) -> str:
        """Everything that it said so far."""
        return self._log.read_text()

    @property
    def pid(self) -> int:
        assert self._child is not None, "the child was not started"
        return self._child.pid

    @property
    def alive(self) -> bool:
        """Whether its process has not ended."""
        return self._child is not None and self._child.poll() is None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def terminate(self) -> None:
        """Ask it to end, and don't wait for it."""
        os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """End it at once; nothing of it runs any more."""
        self.stop(signal.SIGKILL)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int | None:
        """End it, and give its exit code. Idempotent."""
        child, self._child = self._child, None
        if child is None:
            return None
        if child.poll() is None:
            os.kill(child.pid, how)
            os.kill(child.pid, signal.SIGCONT)
        try:
            child.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        assert child.stdout is not None
        child.stdout.close()
        return child.returncode


class NodeProcess(FrameholdProcess):
    """One `framehold node` child, on any port unless one is named."""

    def __init__(self, target: str, log: Path, port: int = 0, **environment: str) -> None:
        super().__init__(["node", target, "--port", str(port)], log, **environment)


@asynccontextmanager
async def node(target: str, folder: Path, **environment: str) -> AsyncIterator[NodeProcess]:
    """A running node; its settings are `FRAMEHOLD_*` names without the prefix, in lower case."""
    named = {f"FRAMEHOLD_{name.upper()}": value for name, value in environment.items()}
    child = NodeProcess(target, folder / "node.log", **named)
    try:
        await child.start()
        yield child
    finally:
        child.stop()


def entries(path: Path) -> list[str]:
    """The lines that handlers wrote when they were entered."""
    return path.read_text().split() if path.exists() else []


Start = Callable[[], Awaitable[NodeProcess]]


@asynccontextmanager
async def heirs(target: str, folder: Path, store_url: str) -> AsyncIterator[Start]:
    """Starts node after node over one store, each under a name of its own and with a lease of a second."""
    async with AsyncExitStack() as stack:
        numbers = itertools.count(1)

        async def start() -> NodeProcess:
            settings = {"store_url": store_url, "namespace": folder.name, "node_id": f"n{next(numbers)}"}
            return await stack.enter_async_context(node(target, folder, **settings, lease_ttl="1", log_level="info"))

        yield start
