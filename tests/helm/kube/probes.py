"""A container's probes, as kubelet runs them.

1. nothing but the startup probe runs until that has succeeded once; too many failures are a failure to live
2. then readiness and liveness run side by side, each in its own period, and count in a row
3. a probe that takes longer than its timeout has failed
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.helm.kube.container import Container

_DEFAULTS = {"initialDelaySeconds": 0, "periodSeconds": 10, "timeoutSeconds": 1}


class Probes:
    """All probes of one life of a container. `ready` is what they last said; `changed` is told of it."""

    def __init__(self, spec: Mapping[str, Any], address: str, changed: Callable[[], None]) -> None:
        self._spec, self._address, self._changed = spec, address, changed
        self._ports = {port["name"]: port["containerPort"] for port in spec.get("ports", []) if "name" in port}
        self.ready = False
        self.failed = asyncio.Event()
        """The container is to be killed: it has not come up, or no longer lives."""
        self.patience: float | None = None
        """What the probe that has failed says of the grace period, if it does."""

    async def run(self, container: Container) -> None:
        """Probe until cancelled."""
        if probe := self._spec.get("startupProbe"):
            await self._until(probe, container, True, probe.get("successThreshold", 1), gives_up=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._readiness(container))
            if probe := self._spec.get("livenessProbe"):
                group.create_task(self._until(probe, container, False, probe.get("failureThreshold", 3)))

    async def _readiness(self, container: Container) -> None:
        probe = self._spec.get("readinessProbe")
        if probe is None:
            self._set(True)
            return
        row = [True, 0]
        async for well in _Rounds(probe, lambda: self._ask(probe, container)):
            row = [well, row[1] + 1 if row[0] is well else 1]
            if row[1] >= probe.get("successThreshold" if well else "failureThreshold", 1 if well else 3):
                self._set(well)

    async def _until(
        self, probe: Mapping[str, Any], container: Container, wanted: bool, times: int, gives_up: bool = False
    ) -> None:
        """Probe until it was so often in a row as `wanted`; where that means death, say so."""
        row = other = 0
        async for well in _Rounds(probe, lambda: self._ask(probe, container)):
            row, other = (row + 1, 0) if well is wanted else (0, other + 1)
            if row >= times:
                if not wanted:
                    self._fail(probe)
                return
            if gives_up and other >= probe.get("failureThreshold", 3):
                self._fail(probe)
                return

    def _fail(self, probe: Mapping[str, Any]) -> None:
        self.patience = probe.get("terminationGracePeriodSeconds")
        self.failed.set()

    def _set(self, ready: bool) -> None:
        if ready is not self.ready:
            self.ready = ready
            self._changed()

    async def _ask(self, probe: Mapping[str, Any], container: Container) -> bool:
        seconds = probe.get("timeoutSeconds", _DEFAULTS["timeoutSeconds"])
        if "exec" in probe:
            return await container.run(probe["exec"]["command"], seconds) == 0
        kind = "httpGet" if "httpGet" in probe else "tcpSocket"
        port = self._ports.get(probe[kind]["port"], probe[kind]["port"])
        try:
            async with asyncio.timeout(seconds):
                if kind == "tcpSocket":
                    return await _connects(self._address, port)
                return 200 <= await status(self._address, port, probe[kind].get("path", "/")) < 400
        except (OSError, TimeoutError, ValueError):
            return False


class _Rounds:
    """The results of a probe, one a period."""

    def __init__(self, probe: Mapping[str, Any], ask: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask
        self._delay = probe.get("initialDelaySeconds", _DEFAULTS["initialDelaySeconds"])
        self._period = probe.get("periodSeconds", _DEFAULTS["periodSeconds"])
        self._next = 0.0

    def __aiter__(self) -> _Rounds:
        self._next = asyncio.get_running_loop().time() + self._delay
        return self

    async def __anext__(self) -> bool:
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(max(0.0, self._next - now))
        self._next = max(self._next, now) + self._period
        return await self._ask()


async def status(address: str, port: int, path: str) -> int:
    """What a GET there is answered."""
    reader, writer = await asyncio.open_connection(address, port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: {address}:{port}\r\nConnection: close\r\n\r\n".encode())
        return int((await reader.readline()).split()[1])
    except IndexError:
        return 0
    finally:
        writer.close()


async def _connects(address: str, port: int) -> bool:
    _, writer = await asyncio.open_connection(address, port)
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
