"""Services: addresses and names for pods that come and go.

A Service with an address is served by a proxy there, which connects each new connection to one of the ready pods, and
leaves those that stand alone: what kube-proxy does, but for one thing. It accepts before it knows whether a pod does,
so where that one refuses, a client sees its connection broken, not refused: harder on a client than a cluster is.

A pod that is new counts at once, one that is no longer ready a second later: so long nobody has told the machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.helm.kube import dns
from tests.helm.kube.network import DNS, Network
from tests.helm.kube.pod import Pod

LATE = 1.0
"""Seconds until the machines know that a pod is not ready any more."""
_PIECE = 1 << 16


class Service:
    """One Service; `pods` are all that there are."""

    def __init__(self, made: Mapping[str, Any], address: str, pods: Callable[[], Iterable[Pod]]) -> None:
        self.name, self.address = str(made["metadata"]["name"]), address
        self._spec, self._pods = made["spec"], pods
        self._seen: dict[str, tuple[Pod, float]] = {}
        """Pods that were ready a while ago, and when they were last, by uid."""
        self._servers: list[asyncio.Server] = []

    async def open(self) -> None:
        """Serve its address, if it has one."""
        for port in self._spec["ports"] if self.address else ():

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: Any = port) -> None:
                await self._serve(port, reader, writer)

            self._servers.append(await asyncio.start_server(serve, self.address, port["port"], backlog=1024))

    def look(self, now: float) -> None:
        """See which pods are ready."""
        for pod in self._chosen():
            if pod.serving:
                self._seen[pod.uid] = pod, now
        self._seen = {uid: (pod, at) for uid, (pod, at) in self._seen.items() if now - at <= LATE}

    def behind(self) -> list[Pod]:
        """The pods that it stands for."""
        if self._spec.get("publishNotReadyAddresses"):
            return [pod for pod in self._chosen() if pod.address and not pod.ended]
        return [pod for pod, _ in self._seen.values()]

    def addresses(self) -> list[str]:
        """What its name leads to."""
        return [self.address] if self.address else [pod.address for pod in self.behind()]

    def _chosen(self) -> list[Pod]:
        wanted = self._spec["selector"].items()
        return [pod for pod in self._pods() if wanted <= pod.labels.items()]

    async def _serve(self, port: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            pod = random.choice(self.behind())
            back, out = await asyncio.open_connection(pod.address, _target(port, pod))
        except (IndexError, OSError):
            writer.transport.abort()
            return
        # Whichever end closes first, or breaks: both are told, after what was on its way.
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(_pump(reader, out), _pump(back, writer))
        for end in (writer, out):
            end.close()

    def close(self) -> None:
        for server in self._servers:
            server.close()


class Services:
    """All of them, and the DNS server that knows them."""

    def __init__(self, namespace: str, domain: str, network: Network, pods: Callable[[], Iterable[Pod]]) -> None:
        self._suffix = f".{namespace}.svc.{domain}"
        self._network, self._pods = network, pods
        self.by_name: dict[str, Service] = {}

    async def open(self) -> None:
        """Answer questions."""
        await dns.serve(DNS, self.look_up)

    async def apply(self, made: Iterable[Mapping[str, Any]]) -> None:
        """Serve those that are new."""
        for one in made:
            name = one["metadata"]["name"]
            if name not in self.by_name:
                address = "" if one["spec"].get("clusterIP") == "None" else await self._network.service()
                self.by_name[name] = Service(one, address, self._pods)
                await self.by_name[name].open()

    def look(self, now: float) -> None:
        """See which pods are ready."""
        for service in self.by_name.values():
            service.look(now)

    def close(self) -> None:
        """Accept no more."""
        for service in self.by_name.values():
            service.close()

    def look_up(self, name: str) -> list[str] | None:
        """The addresses of a Service by its full name, or of a pod behind a headless one by its own."""
        pod, _, service = name.removesuffix(self._suffix).rpartition(".")
        found = self.by_name.get(service)
        if not name.endswith(self._suffix) or found is None:
            return None
        if not pod:
            return random.sample(addresses := found.addresses(), len(addresses))
        return [one.address for one in found.behind() if one.name == pod] or None


def _target(port: Mapping[str, Any], pod: Pod) -> int:
    target = port.get("targetPort", port["port"])
    named = {
        named["name"]: named["containerPort"]
        for container in pod.spec["containers"]
        for named in container.get("ports", [])
    }
    return int(named.get(target, target))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()
