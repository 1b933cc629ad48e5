"""A pod that runs `load`, and whoever commands it."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.pod import Pod
from tests.helm.kube.root import CHECKOUT


class Visitors:
    """Clients in the cluster, which reach the fleet by the name of its Service."""

    def __init__(self, pod: Pod) -> None:
        self._pod = pod

    async def tell(self, *words: object) -> dict[str, Any]:
        """One command, and its answer."""
        pipes = self._pod.container().pipes
        assert pipes.stdin is not None and pipes.stdout is not None
        pipes.stdin.write((" ".join(map(str, words)) + "\n").encode())
        line = await pipes.stdout.readline()
        assert line, f"the clients have ended; {self._pod.log.read_text()}"
        answer: dict[str, Any] = json.loads(line)
        return answer


async def visitors(cluster: Cluster, url: str = "", name: str = "visitors") -> Visitors:
    """Clients of that address; of the front, unless said otherwise."""
    command = [sys.executable, "-m", "tests.helm.kube.load", url or cluster.url()]
    container = {
        "name": "clients",
        "image": "registry.example/trials",
        "stdin": True,
        "command": command,
        "env": [{"name": "PYTHONPATH", "value": str(CHECKOUT)}],
    }
    return Visitors(await cluster.start(name, {"spec": {"restartPolicy": "Never", "containers": [container]}}))
