"""The release: installed by Helm itself, into an API server that keeps objects and runs nothing; the rig runs them."""

from __future__ import annotations

import base64
from contextlib import ExitStack
from typing import Any

import helm_python
import yaml

from tests.helm.chart.cluster import cluster
from tests.helm.chart.render import CHART, Object

NAMESPACE, NAME = "prod", "fleet"


class Release:
    """What is installed under `NAME`, in `NAMESPACE`."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._api = self._open.enter_context(cluster())
        self._helm = self._open.enter_context(
            helm_python.Config(kube_apiserver=self._api.address, namespace=NAMESPACE, storage_driver="memory")
        )
        self._installed = False

    def apply(self, values: dict[str, Any]) -> None:
        """`helm install`, and `helm upgrade` from the second time on.

        Raises:
            helm_python.HelmError: the chart refuses it; what stands stays."""
        with helm_python.Chart.load(CHART) as chart:
            act = self._helm.upgrade if self._installed else self._helm.install
            act(chart, NAME, values, namespace=NAMESPACE)
        self._installed = True

    def of(self, kind: str) -> list[Object]:
        """All objects of a kind."""
        return [made for made in self._api.objects.values() if made["kind"] == kind]

    def one(self, kind: str, name: str) -> Object | None:
        """The object of that kind and name, if it is there."""
        return next((made for made in self.of(kind) if made["metadata"]["name"] == name), None)

    def tests(self) -> list[Object]:
        """The pods that `helm test` runs."""
        found = [yaml.safe_load(hook["manifest"]) for hook in self._helm.get_all(NAME)["hooks"]]
        return [made for made in found if made["kind"] == "Pod"]

    def data(self, kind: str, name: str) -> dict[str, bytes] | None:
        """What a Secret or ConfigMap holds."""
        made = self.one(kind, name)
        if made is None:
            return None
        held = made.get("data") or {}
        if kind == "ConfigMap":
            return {key: text.encode() for key, text in held.items()}
        plain = {key: text.encode() for key, text in (made.get("stringData") or {}).items()}
        return {key: base64.b64decode(text) for key, text in held.items()} | plain

    def close(self) -> None:
        self._open.close()
