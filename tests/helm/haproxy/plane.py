"""The chart's HAProxy on this machine: its configuration but for addresses, and its start and end as its Deployment
says, in front of nodes of a test."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from framehold_cli.local.ports import free as free_port
from tests.helm.chart.render import render, secrets_of
from tests.kit.nodes import KEY
from tests.kit.processes import Child, until

FULL = "fleet-framehold"
_FOLDERS = ("/run/framehold", "/usr/local/etc/haproxy")
_PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"])
_STATUS = re.compile(r'haproxy_server_status\{proxy="nodes",server="([^"]+)",state="(\w+)"\} 1')
_REPLIES = re.compile(r'haproxy_frontend_http_responses_total\{proxy="mcp",code="(\w+)"\} (\d+)')


def program(name: str) -> str:
    """Where HAProxy is. HAPROXY in the environment names another one, to see what a later release says."""
    found = os.environ.get("HAPROXY") or shutil.which(name, path=_PATH)
    assert found, f"{name} is not installed: run tests/system_packages.sh (apt-get install haproxy)"
    return found


def node_name(ordinal: int) -> str:
    """What the chart calls a node."""
    return f"{FULL}-node-{ordinal}"


def config(values: dict[str, Any] | None = None) -> str:
    """The rendered configuration, for so many values beside the one that switches HAProxy on."""
    found: str = render(_on(values)).one("ConfigMap", f"{FULL}-haproxy")["data"]["haproxy.cfg"]
    return found


def pod(values: dict[str, Any] | None = None) -> dict[str, Any]:
    """The rendered Deployment's pod: metadata and spec."""
    found: dict[str, Any] = render(_on(values)).one("Deployment", f"{FULL}-haproxy")["spec"]["template"]
    return found


def _on(values: dict[str, Any] | None) -> dict[str, Any]:
    given = values or {}
    return {**given, "haproxy": {"enabled": True, **given.get("haproxy", {})}}


class HAProxy(Child):
    """One pod of it. `addresses` by server's name say where each is; names without one lead nowhere, as in a cluster
    where nobody has them. `timeouts` of clients and servers replace the rendered ones, in seconds."""

    def __init__(
        self,
        folder: Path,
        addresses: Mapping[str, str],
        values: dict[str, Any] | None = None,
        timeouts: int | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self._spec = folder, pod(values)["spec"]
        ports = {"8080": free_port(), "8404": free_port()}
        self.root, self.metrics = (f"http://127.0.0.1:{port}" for port in ports.values())
        self.url = f"{self.root}/mcp"
        text = config(values).replace("parse-resolv-conf", "nameserver none 127.0.0.1:9")
        for output, port in ports.items():
            text = text.replace(f"bind :{output}\n", f"bind 127.0.0.1:{port}\n")
        for name, address in addresses.items():
            text = re.sub(rf"(?m)^(    server {name}) \S+$", rf"\1 {address}", text)
        if timeouts is not None:
            text = re.sub(r"timeout (client|server) \d+s", rf"timeout \1 {timeouts}s", text)
        (folder / "haproxy.cfg").write_text(text)
        (container,) = self._spec["containers"]
        name, *options = self._words(container)
        super().__init__([program(name), *options], folder / "log", env={"PATH": _PATH})

    def _words(self, container: Mapping[str, Any]) -> list[str]:
        """A container's command, with its folders in this one."""
        words = list(container["command"])
        for text in _FOLDERS:
            words = [word.replace(text, str(self.folder)) for word in words]
        return words

    async def start(self) -> None:
        """Run what comes first, and then HAProxy, until it lives."""
        (first,) = self._spec["initContainers"]
        assert [variable["name"] for variable in first["env"]] == ["FRAMEHOLD_SECRETS_DIR"]
        secrets = self.folder / "secrets"
        secrets.mkdir(exist_ok=True)
        for setting in secrets_of(self._spec):
            (secrets / setting).write_text({"FRAMEHOLD_KEYS": KEY}[setting])
        python = os.pathsep.join(filter(None, sys.path))
        bare = {"PATH": _PATH, "PYTHONPATH": python, "FRAMEHOLD_SECRETS_DIR": str(secrets)}
        subprocess.run(self._words(first), env=bare, check=True, timeout=60)
        self.launch()
        await self.until(self._lives, "HAProxy's start")

    def _lives(self) -> bool:
        with contextlib.suppress(httpx2.TransportError):
            return self.probe("healthz") == 200
        return False

    def probe(self, path: str) -> int:
        """What a kubelet hears."""
        return httpx2.get(f"{self.metrics}/{path}", timeout=2).status_code

    def states(self) -> dict[str, str]:
        """How it sees each node: UP, DOWN, MAINT, or NOLB for one that gets no new requests."""
        return dict(_STATUS.findall(httpx2.get(f"{self.metrics}/metrics", timeout=5).text))

    def replies(self) -> dict[str, int]:
        """How many clients got of each kind, as Prometheus is told: 2xx and so on."""
        found = _REPLIES.findall(httpx2.get(f"{self.metrics}/metrics", timeout=5).text)
        return {code: int(count) for code, count in found}

    async def sees(self, *up: str) -> None:
        """Wait until these nodes get requests, and no others."""
        await until(lambda: {name for name, state in self.states().items() if state == "UP"} == set(up), f"{up} up")

    def end(self) -> None:
        """Tell it to end as its image's STOPSIGNAL does, and don't wait."""
        self.send_signal(signal.SIGUSR1)


@asynccontextmanager
async def planes(*made: HAProxy) -> AsyncIterator[None]:
    """These HAProxies run."""
    try:
        for one in made:
            await one.start()
        yield
    finally:
        for one in made:
            one.kill()
