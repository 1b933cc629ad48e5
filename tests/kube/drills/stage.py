"""What a drill stands on: a fleet that is installed, its users who are parked, and what is done to pods."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.kube.drills.cluster import Cluster
from tests.kube.drills.fleet import URL
from tests.kube.drills.judged import Wanted
from tests.kube.drills.users import Crowd

GRACE = 2.0
"""Seconds that a takeover may take beyond the lease."""
CHECKS = 2.0
"""Seconds in which a router's two checks find that a node which keeps its connections open has no lease any more."""


@dataclass
class Stage:
    """A fleet that is installed, with its users parked. `nodes`: the pod of each user's call."""

    cluster: Cluster
    crowd: Crowd
    nodes: list[str]

    @property
    def fullest(self) -> str:
        """The pod that holds the most calls."""
        return max(sorted(set(self.nodes)), key=self.nodes.count)

    async def kill(self, pod: str) -> None:
        """Delete a pod by force, without a grace period."""
        await self.cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")

    async def back(self, pod: str) -> None:
        """Wait until a pod of that name is ready again."""
        await self.cluster.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=300s")

    async def restart(self, part: str) -> None:
        """Replace all pods of a Deployment, and wait until the new ones are ready."""
        await self.cluster.kubectl("rollout", "restart", part)
        await self.cluster.settled()

    async def restarts(self) -> int:
        """How often containers of nodes and routers were started again."""
        words = ("pods", "--selector=app.kubernetes.io/component in (node, router)")
        pods = (await self.cluster.get(*words))["items"]
        return sum(container["restartCount"] for pod in pods for container in pod["status"]["containerStatuses"])

    async def begun_again(self, pod: str) -> dict[str, Any]:
        """Wait until the pod's container was started again and is ready; how the one before ended."""
        found: dict[str, Any] = {}

        async def ready() -> bool:
            nonlocal found
            [found] = (await self.cluster.get("pod", pod))["status"]["containerStatuses"]
            return bool(found["restartCount"] and found["ready"])

        await self.cluster.until(ready, f"{pod} was started again, and is ready")
        ended: dict[str, Any] = found["lastState"]["terminated"]
        return ended


@dataclass(frozen=True)
class Drill:
    """What is done, and to which fleet."""

    act: Callable[[Stage], Awaitable[Wanted]]
    values: Mapping[str, Any] = field(default_factory=dict)
    """Values of the chart beside those of `fleet.py`, by path."""
    apart: bool = False
    """The fleet is installed for this drill alone: an upgrade can't lead to its values and back."""
    url: str = URL
    host: str = ""
    """What clients ask for, where it is another host than that of `url`."""
    visitors: int = 8
