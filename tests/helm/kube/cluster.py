"""The cluster in miniature: what a scenario installs on, looks at, and does things to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.helm.kube import images
from tests.helm.kube.controllers import KINDS, Controller
from tests.helm.kube.network import DNS, Network
from tests.helm.kube.pod import Pod
from tests.helm.kube.release import NAMESPACE, Release
from tests.helm.kube.root import Root
from tests.helm.kube.services import Services
from tests.helm.kube.surroundings import Surroundings

DOMAIN = "cluster.local"
NAME = "fleet-framehold"
"""What the chart calls its objects: the release is `fleet`."""
_STEP = 0.05
_RESOLV = (
    f"nameserver {DNS}\nsearch {NAMESPACE}.svc.{DOMAIN} svc.{DOMAIN} {DOMAIN}\noptions ndots:5 timeout:1 attempts:5\n"
)
_FILES = {
    "resolv.conf": _RESOLV,
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "hosts": "127.0.0.1 localhost\n",
}


class Cluster:
    """Pods, Services and one release. `events`: (seconds, pod, what happened)."""

    def __init__(self, root: Root, clock: Callable[[], float]) -> None:
        self.root, self._clock, self._began = root, clock, clock()
        self.events: list[tuple[float, str, str]] = []
        self.network, self.release = Network(), Release()
        self.controllers: dict[str, Controller] = {}
        self.services = Services(NAMESPACE, DOMAIN, self.network, self._all)
        path = images.install(root)
        self._around = Surroundings(root, self.network, NAMESPACE, path, self.release.data, self._tell, clock)
        self._others: list[Pod] = []
        self._stepping: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Let there be a network, names, and somebody who looks after pods."""
        for name, text in _FILES.items():
            file = self.root.path / "etc" / name
            file.unlink(missing_ok=True)
            file.write_text(text)
        await self.network.open()
        await self.services.open()
        self._stepping = asyncio.create_task(self._steps())

    async def install(self, values: dict[str, Any]) -> None:
        """`helm install` at first, `helm upgrade` from then on: what is wanted is said, and nobody waits for it."""
        # Helm talks to a server in this very process, and keeps its thread.
        await asyncio.to_thread(self.release.apply, values)
        await self.services.apply(self.release.of("Service"))
        for kind, make in KINDS.items():
            for one in self.release.of(kind):
                name = one["metadata"]["name"]
                if name in self.controllers:
                    self.controllers[name].apply(one)
                else:
                    self.controllers[name] = make(one, self._around)

    async def settled(self, seconds: float = 60) -> float:
        """Wait until all pods are there, new and ready; how many seconds it took."""
        return await self.sees(
            lambda: all(one.settled for one in self.controllers.values()), "a cluster at rest", seconds
        )

    async def sees(self, holds: Callable[[], object], what: str, seconds: float = 30) -> float:
        """Wait until that holds; how many seconds it took."""
        began = self._clock()
        while not holds():
            assert self._stepping is not None and not self._stepping.done(), "the controllers have ended"
            assert self._clock() < began + seconds, f"{what}: not within {seconds:g} s"
            await asyncio.sleep(_STEP)
        return self._clock() - began

    def pods(self, component: str) -> list[Pod]:
        """The pods of `node`, `router`, `haproxy` or `store`, those that leave among them."""
        return list(self.controllers[f"{NAME}-{component}"].pods)

    def pod(self, name: str) -> Pod:
        """The pod that has this name, which must be there."""
        (found,) = [pod for pod in self._all() if pod.name == name]
        return found

    async def start(self, name: str, template: dict[str, Any]) -> Pod:
        """A pod beside the release, such as a client; returns when it has a process."""
        pod = Pod(name, {"metadata": {}, **template}, self._around, [])
        self._others.append(pod)
        await self.sees(lambda: pod.running, f"{name}'s process")
        return pod

    def url(self, service: str = NAME) -> str:
        """Where clients in the cluster find a Service."""
        return f"http://{service}.{NAMESPACE}.svc.{DOMAIN}"

    def when(self, pod: str, what: str) -> list[float]:
        """When that happened to a pod, in seconds since the cluster began."""
        return [at for at, name, result in self.events if name == pod and result.startswith(what)]

    @property
    def now(self) -> float:
        """Seconds since the cluster began."""
        return self._clock() - self._began

    @property
    def forced(self) -> int:
        """How often SIGKILL was needed."""
        gone = [pod for one in self.controllers.values() for pod in one.gone]
        return sum(pod.forced for pod in (*gone, *self._all()))

    def report(self) -> str:
        """All that happened, and the last words of all containers."""
        lines = [f"{at:7.2f} {pod}: {what}" for at, pod, what in self.events]
        for log in sorted(self.root.folder("logs").iterdir()):
            lines += [f"---- {log.name}", *log.read_text(errors="replace").splitlines()[-40:]]
        return "\n".join(lines)

    def logs(self) -> dict[str, str]:
        """What all containers said, by pod and life."""
        return {log.name: Path(log).read_text(errors="replace") for log in self.root.folder("logs").iterdir()}

    def close(self) -> None:
        """End what could keep this process; the kernel ends the rest."""
        if self._stepping is not None:
            self._stepping.cancel()
        self.services.close()
        self.release.close()

    def _all(self) -> Iterator[Pod]:
        for one in self.controllers.values():
            yield from one.pods
        yield from self._others

    def _tell(self, pod: str, what: str) -> None:
        self.events.append((round(self.now, 3), pod, what))

    async def _steps(self) -> None:
        while True:
            for one in self.controllers.values():
                one.step()
            self.services.look(self._clock())
            await asyncio.sleep(_STEP)
