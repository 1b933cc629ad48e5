"""One pod: from its first container to the last word of its end, as kubelet leads it.

1. init containers, one after the other; then the containers
2. a container that ends is started again, the first time at once; one whose probes fail is ended first
3. `delete`: it is not ready from then on for Services; preStop, then the signal that its image ends by, and when the
   grace period is over, counted from the order, SIGKILL
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.helm.kube import env
from tests.helm.kube.container import Container, Plan
from tests.helm.kube.images import image
from tests.helm.kube.probes import Probes
from tests.helm.kube.surroundings import Surroundings
from tests.helm.kube.volumes import Volumes

_PAUSES = (0.0, 10.0, 20.0, 40.0)
"""Seconds before a container is started again."""
_GRACE = 30
_SIZES = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "k": 10**3, "M": 10**6, "G": 10**9}


class Pod:
    """A pod of `spec`, called `name`. `revision` is that of its template."""

    def __init__(self, name: str, template: Mapping[str, Any], around: Surroundings, claims: list[Any]) -> None:
        self.name, self.spec, self._around = name, template["spec"], around
        self.labels: Mapping[str, str] = template["metadata"].get("labels", {})
        self.revision = revision(template)
        self.uid = around.uid()
        self.address = ""
        self.terminating = self.ended = False
        self.restarts = self.forced = 0
        """How often a container was started again; and how often SIGKILL was needed to end one."""
        self.code: int | None = None
        """The exit code of a pod that is not started again."""
        self._claims = claims
        self._volumes = Volumes(around.root, name, self.uid, around.data)
        self._running: dict[str, tuple[Container, Probes]] = {}
        self._wanted: set[str] = set()
        self._task = asyncio.create_task(self._lead())
        self._end: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """Whether all its containers are."""
        names = {container["name"] for container in self.spec["containers"]}
        return names == {name for name, (one, probes) in self._running.items() if one.alive and probes.ready}

    @property
    def running(self) -> bool:
        """Whether a process of it runs."""
        return any(one.alive and one.pid for one, _ in self._running.values())

    @property
    def serving(self) -> bool:
        """Whether Services send to it."""
        return self.ready and not self.terminating

    def container(self, name: str = "") -> Container:
        """The present life of a container; of the first one, unless named."""
        return self._running[name or self.spec["containers"][0]["name"]][0]

    @property
    def log(self) -> Path:
        """Where its containers' words are."""
        return self._around.root.folder("logs") / f"{self.name}-{self.uid}"

    def delete(self) -> None:
        """Order it to end, in good order."""
        if not self.terminating:
            self.terminating = True
            self._tell("terminating")
            self._end = asyncio.create_task(self._leave())

    async def _lead(self) -> None:
        self._tell("created")
        self.address = await self._around.network.plug(self.uid)
        try:
            self._volumes.make(self.spec, self._claims)
            for spec in self.spec.get("initContainers", []):
                container = Container(self._around.root, self._plan(spec), self.log)
                await container.start()
                if code := await container.wait():
                    self._tell(f"init container {spec['name']} ended with {code}")
                    return
            async with asyncio.TaskGroup() as group:
                for spec in self.spec["containers"]:
                    group.create_task(self._keep(spec))
        except env.MissingReference as missing:
            self._tell(f"can't be created: {missing} is not there")

    async def _keep(self, spec: Mapping[str, Any]) -> None:
        """Run one container again and again."""
        for life in range(1000):
            await asyncio.sleep(_PAUSES[min(max(0, life - 1), len(_PAUSES) - 1)])
            if self.terminating:
                return
            container = Container(self._around.root, self._plan(spec), self.log)
            probes = Probes(spec, self.address, lambda: self._tell("ready" if self.ready else "unready"))
            await container.start()
            self._running[spec["name"]] = container, probes
            code = await self._live(spec, container, probes)
            if self.terminating or self.spec.get("restartPolicy") == "Never":
                self.code = code
                return
            self.restarts += 1
            self._tell(f"container {spec['name']} ended with {code}; it is started again")

    async def _live(self, spec: Mapping[str, Any], container: Container, probes: Probes) -> int:
        """One life of a container; its exit code."""
        probing = asyncio.create_task(probes.run(container))
        failing = asyncio.create_task(probes.failed.wait())
        ending = asyncio.create_task(container.wait())
        await asyncio.wait((failing, ending), return_when=asyncio.FIRST_COMPLETED)
        if probes.failed.is_set() and not self.terminating:
            self._tell(f"container {spec['name']} does not live; it is ended")
            await self._stop(spec, container, self._grace if probes.patience is None else probes.patience)
        code = await ending
        was, probes.ready = probes.ready, False
        if was and not self.terminating:
            self._tell("unready")
        for task in (probing, failing):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await probing
        return code

    async def _leave(self) -> None:
        await asyncio.sleep(0)
        specs = {spec["name"]: spec for spec in self.spec["containers"]}
        running = {name: one for name, (one, _) in self._running.items()}
        await asyncio.gather(*(self._stop(specs[name], one, self._grace) for name, one in running.items()))
        # It ends by itself, unless it has nothing that could end: it pauses, or has not begun.
        await asyncio.wait((self._task,), timeout=1)
        self._task.cancel()
        if self.address:
            await self._around.network.unplug(self.uid)
        self._volumes.remove()
        self.ended = True
        self._tell("ended")

    async def _stop(self, spec: Mapping[str, Any], container: Container, grace: float) -> None:
        """End a container in good order within `grace` seconds, and by force after."""
        end = self._around.clock() + grace
        hook = spec.get("lifecycle", {}).get("preStop", {})
        if "exec" in hook:
            await container.run(hook["exec"]["command"], grace)
        elif "sleep" in hook:
            await asyncio.sleep(hook["sleep"]["seconds"])
        container.signal(image(spec["image"]).stop)
        try:
            # Whatever the hook took, two seconds are left.
            await asyncio.wait_for(container.wait(), max(2.0, end - self._around.clock()))
        except TimeoutError:
            self.forced += 1
            self._tell(f"container {spec['name']} outlasted its grace period of {grace:g} s; it is killed")
            container.signal(signal.SIGKILL)
            await container.wait()

    @property
    def _grace(self) -> float:
        return float(self.spec.get("terminationGracePeriodSeconds", _GRACE))

    def _plan(self, spec: Mapping[str, Any]) -> Plan:
        fields = {
            "metadata.name": self.name,
            "metadata.namespace": self._around.namespace,
            "metadata.uid": self.uid,
            "status.podIP": self.address,
        }
        made = env.environment(spec, fields, self._around.data)
        pod, own = self.spec.get("securityContext", {}), spec.get("securityContext", {})
        limit = spec.get("resources", {}).get("limits", {}).get("memory")
        return Plan(
            command=[env.expand(word, made) for word in (*spec["command"], *spec.get("args", []))],
            environment={"PATH": self._around.path, **made},
            network=self.uid,
            host=self.name,
            folder=spec.get("workingDir", image(spec["image"]).folder),
            mounts=tuple(self._volumes.mounts(spec)),
            read_only=own.get("readOnlyRootFilesystem", False),
            user=own.get("runAsUser", pod.get("runAsUser")) if self._around.root.users else None,
            groups=[pod["fsGroup"]] if "fsGroup" in pod else [],
            memory=size(limit) if limit else None,
            stdin=spec.get("stdin", False),
        )

    def _tell(self, what: str) -> None:
        self._around.tell(self.name, what)


def revision(template: Mapping[str, Any]) -> str:
    """The same for equal templates alone."""
    return f"{hash(repr(template)) & 0xFFFFFFFFFF:010x}"


def size(text: str | int) -> int:
    """Bytes of a Kubernetes quantity."""
    for unit, factor in _SIZES.items():
        if str(text).endswith(unit):
            return int(float(str(text).removesuffix(unit)) * factor)
    return int(text)
