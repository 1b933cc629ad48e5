"""Restate as a peer: its handler under uvicorn, `restate-server` before it, and a call as a client of its ingress makes
it.

As uvicorn speaks HTTP/1.1, Restate drives the handler by requests and responses: what waits for a promise is suspended
at once, and entered again with its journal once the promise is resolved. Its files are kept in memory where the machine
has a folder for that, since the Redis beside Framehold is one without persistence: neither waits for a disk.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from framehold_loadtest.bench import weather
from framehold_loadtest.bench.calls import Site
from framehold_loadtest.client.connection import CallError, Connection, Response
from framehold_loadtest.local.listeners import accepting, announced, free_ports
from framehold_loadtest.local.process import NotAvailable, Process, python
from framehold_loadtest.served.weather import QUESTION, RESTATE_SERVICE, expected_text

_JOIN_SECONDS = 20.0
_MEMORY = Path("/dev/shm")  # noqa: S108  # a private folder is made in it
_RUN = secrets.token_hex(4)  # a workflow's key serves once, and runs of the load share a server


@contextlib.contextmanager
def restate(core: int, binary: Path) -> Iterator[Site]:
    """Handler and server on a core: the ingress is what is called, with the handler's CPU as the server's and
    restate-server's as the store's.

    Raises:
        NotAvailable: one of them does not start, or they do not find each other.
    """
    if not binary.exists():
        raise NotAvailable(f"npm has no restate-server for this machine: {binary.parent.parent.name} is missing")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None))
        ingress, admin, fabric = free_ports(3)
        settings = _settings(folder, ingress, admin, fabric)
        handler = stack.enter_context(announced(python("framehold_loadtest.served.measured", "restate"), core, {}))
        argv = [str(binary), "--no-logo"]
        silent = "restate-server does not accept connections"
        server = stack.enter_context(accepting(argv, core, settings, ingress, silent))
        _introduce(admin, handler.port, server)
        yield Site(ingress, handler.pid, server.pid)


async def asked(channel: Connection, port: int, call: weather.Call) -> tuple[float, float]:
    """A call whose first round returns the handler's question; a `Complete` of bench.calls."""
    key = f"{_RUN}-{call.number}"
    reply, first = await _timed(channel, _post(port, key, "begin", call.location))
    if reply.status != 200 or json.loads(reply.body) != QUESTION:
        raise CallError(f"round 1: HTTP {reply.status}: {reply.body[:120]!r}")
    return first, await _answer(channel, port, key, call)


async def known(channel: Connection, port: int, call: weather.Call) -> tuple[float, float]:
    """A call of a client that knows the question: its first round is over once Restate has accepted the call."""
    key = f"{_RUN}-{call.number}"
    reply, first = await _timed(channel, _post(port, key, "run/send", call.location))
    if reply.status != 202:
        raise CallError(f"round 1: HTTP {reply.status}: {reply.body[:120]!r}")
    return first, await _answer(channel, port, key, call)


async def _answer(channel: Connection, port: int, key: str, call: weather.Call) -> float:
    reply, seconds = await _timed(channel, _post(port, key, "answer", call.units))
    if reply.status != 200 or json.loads(reply.body) != expected_text(call.location, call.units):
        raise CallError(f"round 2: HTTP {reply.status}: {reply.body[:120]!r}")
    return seconds


async def _timed(channel: Connection, request: bytes) -> tuple[Response, float]:
    began = time.perf_counter()
    return await channel.request(request), time.perf_counter() - began


def _post(port: int, key: str, handler: str, value: str) -> bytes:
    body = json.dumps(value).encode()
    head = f"POST /{RESTATE_SERVICE}/{key}/{handler} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def _settings(folder: str, ingress: int, admin: int, fabric: int) -> dict[str, str]:
    return {
        "RESTATE_BASE_DIR": folder,
        "RESTATE_NODE_NAME": "bench",
        "RESTATE_DEFAULT_NUM_PARTITIONS": "1",  # its 24 are for many cores; on one they cost it twice the CPU
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_BIND_ADDRESS": f"127.0.0.1:{fabric}",
        "RESTATE_INGRESS__BIND_ADDRESS": f"127.0.0.1:{ingress}",
        "RESTATE_ADMIN__BIND_ADDRESS": f"127.0.0.1:{admin}",
        "RESTATE_DISABLE_TELEMETRY": "true",
        "RESTATE_LOG_FILTER": "error",  # nobody reads its output, and a pipe holds only so much
    }


def _introduce(admin: int, handler: int, server: Process) -> None:
    """Register the handler, as soon as the server takes it."""
    body = json.dumps({"uri": f"http://127.0.0.1:{handler}", "use_http_11": True})
    deadline = time.monotonic() + _JOIN_SECONDS
    answer = "its admin port does not answer"
    while time.monotonic() < deadline:
        link = http.client.HTTPConnection("127.0.0.1", admin, timeout=_JOIN_SECONDS)
        try:
            link.request("POST", "/deployments", body, {"content-type": "application/json"})
            reply = link.getresponse()
            answer = f"HTTP {reply.status}: {reply.read(200)!r}"
            if reply.status == http.client.CREATED:
                return
        except (OSError, http.client.HTTPException) as error:
            answer = f"{type(error).__name__}: {error}"
        finally:
            link.close()
        time.sleep(0.1)
    raise NotAvailable(f"restate-server did not take the handler: {answer}{server.last_words()}")
