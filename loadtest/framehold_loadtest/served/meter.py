"""An ASGI wrapper inside the measured server: its own time per marked request, and its collector's pauses.

Law: it adds the same few microseconds to every request and keeps nothing per call except one number for
each marked request, until it is read. `GET METER_PATH` reads and resets it; `?collect` collects first.
"""

from __future__ import annotations

import gc
import json
import time
from array import array
from collections.abc import MutableMapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

METER_PATH = "/bench/meter"
MARK = b"bench-marked"


@dataclass(frozen=True, slots=True)
class Reading:
    """What happened since the last reading; times in seconds. Pauses are CPU of the pass: a pass does nothing else, and
    what another process takes of the core meanwhile is not the collector's."""

    latencies: list[float]
    young_pause: float
    full_pause: float
    collected: int


class Meter:
    """Times requests with the header `MARK` until their reply is sent, and every pass of the garbage collector."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._latencies = array("d")
        self._pass_began = 0.0
        self._longest = [0.0, 0.0, 0.0]
        self._collected = 0
        gc.callbacks.append(self._on_collector)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a reading, or pass the request on and time it if it is marked."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"] == METER_PATH:
            await self._answer(scope, send)
        elif any(name == MARK for name, _ in scope["headers"]):
            await self._app(scope, receive, self._timed(send))
        else:
            await self._app(scope, receive, send)

    def _timed(self, send: Send) -> Send:
        began = time.perf_counter()

        async def timed(message: MutableMapping[str, Any]) -> None:
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                self._latencies.append(time.perf_counter() - began)

        return timed

    def _on_collector(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._pass_began = time.thread_time()
            return
        pause = time.thread_time() - self._pass_began
        generation = info["generation"]
        self._longest[generation] = max(self._longest[generation], pause)
        self._collected += info["collected"]

    def _read(self) -> Reading:
        reading = Reading(
            latencies=self._latencies.tolist(),
            young_pause=max(self._longest[:2]),
            full_pause=self._longest[2],
            collected=self._collected,
        )
        self._latencies = array("d")
        self._longest = [0.0, 0.0, 0.0]
        self._collected = 0
        return reading

    async def _answer(self, scope: Scope, send: Send) -> None:
        if scope["query_string"] == b"collect":
            gc.collect()
        body = json.dumps(asdict(self._read())).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        start: dict[str, Any] = {"type": "http.response.start", "status": 200, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": body})
