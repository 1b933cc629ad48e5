"""What makes pods so many, and of the template that is wanted: the controllers of StatefulSets and Deployments.

Each looks at what is there again and again, and takes the next step towards what should be there. A StatefulSet with
`podManagementPolicy: Parallel` makes what is missing at once, takes away the highest names at once, and renews from the
highest, as many at a time as its `maxUnavailable` lets be away (one), waiting until they are ready. A Deployment renews
within `maxSurge` and `maxUnavailable`.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping
from typing import Any

from tests.helm.kube.pod import Pod, revision
from tests.helm.kube.surroundings import Surroundings

Object = Mapping[str, Any]


class Controller:
    """Keeps the pods of one object. `replicas` may be set by whoever scales."""

    def __init__(self, made: Object, around: Surroundings) -> None:
        self.name = str(made["metadata"]["name"])
        self._around = around
        self.pods: list[Pod] = []
        self.gone: list[Pod] = []
        """Those that have ended, for good."""
        self.apply(made)

    def apply(self, made: Object) -> None:
        """Want this from now on."""
        self._spec = made["spec"]
        self.replicas = int(self._spec.get("replicas", 1))
        self.revision = revision(self._spec["template"])

    @property
    def settled(self) -> bool:
        """Whether everything is as it should be."""
        fresh = [pod for pod in self.pods if pod.serving and pod.revision == self.revision]
        return len(fresh) == len(self.pods) == self.replicas

    def step(self) -> None:
        """Look, and take the next step."""
        self.gone += [pod for pod in self.pods if pod.ended]
        self.pods = [pod for pod in self.pods if not pod.ended]
        self._step()

    def _step(self) -> None:
        raise NotImplementedError

    def _create(self, name: str) -> None:
        claims = self._spec.get("volumeClaimTemplates", [])
        self.pods.append(Pod(name, self._spec["template"], self._around, claims))


class StatefulSet(Controller):
    """Pods named by number."""

    def _step(self) -> None:
        missing = set(range(self.replicas)) - {self._number(pod) for pod in self.pods}
        for number in sorted(missing):
            self._create(f"{self.name}-{number}")
        by_number = {self._number(pod): pod for pod in self.pods}
        for number, pod in by_number.items():
            if number >= self.replicas:
                pod.delete()
        strategy = self._spec.get("updateStrategy", {})
        absent = _share(strategy.get("rollingUpdate", {}).get("maxUnavailable", 1), self.replicas, math.floor)
        for number in sorted(by_number, reverse=True):
            pod = by_number[number]
            if number < self.replicas and pod.revision != self.revision and strategy.get("type") != "OnDelete":
                pod.delete()
            absent -= not pod.serving
            if absent <= 0:
                return

    def _number(self, pod: Pod) -> int:
        return int(pod.name.removeprefix(f"{self.name}-"))


class Deployment(Controller):
    """Pods of random names."""

    def _step(self) -> None:
        strategy = self._spec.get("strategy", {}).get("rollingUpdate", {})
        surge = _share(strategy.get("maxSurge", "25%"), self.replicas, math.ceil)
        absent = _share(strategy.get("maxUnavailable", "25%"), self.replicas, math.floor)
        here = [pod for pod in self.pods if not pod.terminating]
        old = [pod for pod in here if pod.revision != self.revision]
        fresh = [pod for pod in here if pod.revision == self.revision]
        for _ in range(min(self.replicas - len(fresh), self.replicas + surge - len(here))):
            self._create(f"{self.name}-{self.revision}-{secrets.token_hex(3)[:5]}")
        for pod in fresh[self.replicas :]:
            pod.delete()
        spare = sum(pod.ready for pod in here) - (self.replicas - absent)
        for pod in sorted(old, key=lambda pod: pod.ready):
            if pod.ready and spare <= 0:
                return
            spare -= pod.ready
            pod.delete()


KINDS = {"StatefulSet": StatefulSet, "Deployment": Deployment}


def _share(text: str | int, of: int, rounded: Any) -> int:
    return int(rounded(of * int(text.removesuffix("%")) / 100)) if isinstance(text, str) else text
