"""The cluster of `make kube`, for programs in its network: kubectl and Helm, as its administrator."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import helm_python
from helm_python import HelmError

from tests.kube.drills import spread

SCRIPTS = Path(__file__).resolve().parents[1]
REPOSITORY = SCRIPTS.parents[1]
CHART = REPOSITORY / "helm" / "framehold"
CACHE = Path(os.environ.get("KUBE_CACHE", Path.home() / ".cache" / "framehold-kube"))
SHARED = CACHE / "run" / "shared"
"""The folder that this machine and the cluster's nodes share; there it is /opt/kube/shared."""
NAMESPACE, RELEASE = "drills", "fleet"
NAME = f"{RELEASE}-framehold"
FRONT = "172.31.0.1"
"""The address of the front Service, spread over the cluster's machines as a load balancer does."""
MACHINE = "172.30.0.11"
"""The address of the first machine."""
_PATIENCE = 300


class Cluster:
    """The cluster that is up, and one release in it."""

    def __init__(self, namespace: str = NAMESPACE, release: str = RELEASE) -> None:
        self.namespace, self.release = namespace, release
        self.config = SHARED / "pki" / "admin.conf"
        if not self.config.exists():
            raise SystemExit("kube: no cluster is up; start one with make kube")

    async def kubectl(self, *words: str, check: bool = True) -> str:
        """What kubectl prints, in the namespace of the release."""
        command = [str(SCRIPTS / "kubectl.sh"), "--namespace", self.namespace, *words]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    async def get(self, *words: str) -> dict[str, Any]:
        """An object, or a list of objects."""
        found: dict[str, Any] = json.loads(await self.kubectl("get", *words, "--output", "json"))
        return found

    async def keep_logs(self, folder: Path) -> None:
        """Write what the containers of the namespace logged, also those before their last restart, to a file each."""
        folder.mkdir(parents=True, exist_ok=True)
        for pod in (await self.get("pods"))["items"]:
            name = pod["metadata"]["name"]
            restarts = sum(container["restartCount"] for container in pod["status"].get("containerStatuses", ()))
            for kind, words in (("before", ("--previous",)), ("now", ())):
                if restarts or kind == "now":
                    text = await self.kubectl("logs", name, "--all-containers", "--timestamps", *words, check=False)
                    (folder / f"{name}.{kind}.log").write_text(text)

    async def machine(self, name: str, *command: str) -> str:
        """Run a command in one of the cluster's machines."""
        words = [str(SCRIPTS / "machine.sh"), "run", name, *command]
        done = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=True)
        return done.stdout

    async def install(self, values: dict[str, Any]) -> None:
        """`helm upgrade --install --wait`."""
        await asyncio.to_thread(self._install, values)

    async def rollback(self) -> None:
        """`helm rollback --wait` to the revision before."""
        await asyncio.to_thread(self._helm, lambda helm: helm.rollback(self.release, timeout=_PATIENCE, wait="watcher"))

    async def uninstall(self) -> None:
        """`helm uninstall --wait`, if there is something."""
        await asyncio.to_thread(
            self._helm,
            lambda helm: helm.uninstall(self.release, ignore_not_found=True, wait="watcher", timeout=_PATIENCE),
        )

    async def test(self) -> str:
        """`helm test`; what its pod printed, below a line that says whether it passed."""
        try:
            await asyncio.to_thread(self._helm, lambda helm: helm.test(self.release, timeout=_PATIENCE))
            end = "it passed"
        except HelmError as error:
            end = f"it failed: {error}"
        return f"{end}\n{await self.kubectl('logs', f'{self.release}-test')}"

    async def settled(self, *, nodes: bool = False) -> None:
        """Wait until all parts of the release are rolled out.

        Raises:
            RuntimeError: routers or HAProxy are not spread over the machines then; or nodes are not, where asked so.
        """
        chosen = f"--selector=app.kubernetes.io/instance={self.release}"
        sets = (await self.get("statefulset,deployment", chosen))["items"]
        for item in sets:
            name = f"{item['kind']}/{item['metadata']['name']}"
            await self.kubectl("rollout", "status", name, f"--timeout={_PATIENCE}s")

        async def complete() -> bool:
            """Whether no pod is missing: a stateful set with a pod that still ends counts that one, and makes no other
            of its name yet."""
            pods = (await self.get("pods", chosen))["items"]
            return all(spread.living(pods, part) == replicas for part, replicas in map(spread.wanted, sets))

        await self.until(complete, "all pods of the release")
        pods, machines = (await self.get("pods", chosen))["items"], (await self.get("nodes"))["items"]
        if found := spread.crowded(pods, machines, (*spread.FRONT, spread.NODE) if nodes else spread.FRONT):
            raise RuntimeError("; ".join(found))

    async def until(self, holds: Callable[[], Any], what: str, deadline: float = _PATIENCE) -> None:
        """Ask once a second, until the answer is true."""
        end = time.monotonic() + deadline
        while not await holds():
            if time.monotonic() > end:
                raise RuntimeError(f"{what}: not within {deadline:g} s")
            await asyncio.sleep(1)

    def _install(self, values: dict[str, Any]) -> None:
        with self._config() as helm:
            options: dict[str, Any] = {"namespace": self.namespace, "wait": "watcher", "timeout": _PATIENCE}
            if any(release["name"] == self.release for release in helm.list(all_states=True)):
                helm.upgrade(CHART, self.release, values, **options)
            else:
                helm.install(CHART, self.release, values, create_namespace=True, **options)

    def _helm(self, act: Callable[[Any], Any]) -> Any:
        with self._config() as helm:
            return act(helm)

    def _config(self) -> helm_python.Config:
        return helm_python.Config(kubeconfig_path=str(self.config), namespace=self.namespace)
