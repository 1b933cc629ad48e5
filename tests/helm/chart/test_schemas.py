"""Whatever the chart renders, each release of Kubernetes that it is meant for takes, to the letter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helm.chart.render import CI, ci, render
from tests.helm.chart.schemas import CUSTOM, RELEASES, faults

_EVERYTHING: dict[str, Any] = {
    "ipFamily": "IPv6",
    "commonLabels": {"team": "booking"},
    "commonAnnotations": {"owner": "booking"},
    "imagePullSecrets": [{"name": "registry"}],
    "node": {
        "source": "mcp = 1\n",
        "env": [{"name": "CITY", "value": "Rome"}],
        "envFrom": [{"secretRef": {"name": "api"}}],
        "initContainers": [{"name": "first", "image": "busybox"}],
        "extraContainers": [{"name": "beside", "image": "busybox"}],
        "extraVolumes": [{"name": "more", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}],
        "podAnnotations": {"a": "b"},
        "podLabels": {"c": "d"},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [],
        "priorityClassName": "high",
    },
    "service": {"type": "NodePort", "nodePort": 30080},
    "store": {"tls": {"caSecret": "ca"}, "bundled": {"persistence": {"enabled": False}}},
}


@pytest.fixture(scope="module")
def made() -> list[dict[str, Any]]:
    """Every object of every kind of installation, each text once."""
    all_values = [{}, _EVERYTHING, *map(ci, CI)]
    objects = {repr(each): each for values in all_values for each in render(values).objects}
    return [each for each in objects.values() if each["kind"] not in CUSTOM]


def test_the_releases_reach_from_the_least_that_the_chart_takes_to_the_newest_known() -> None:
    assert RELEASES[0].startswith("1.28.") and RELEASES[-1].startswith("1.37.") and len(RELEASES) == 10


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_of_kubernetes_takes_every_object(release: str, made: list[dict[str, Any]]) -> None:
    assert len(made) > 40
    assert [fault for each in made for fault in faults(each, release)] == []


def test_a_misspelt_field_would_be_seen(made: list[dict[str, Any]]) -> None:
    service = next(each for each in made if each["kind"] == "Service")
    assert faults({**service, "spec": {**service["spec"], "selektor": {}}}, RELEASES[-1]) != []
