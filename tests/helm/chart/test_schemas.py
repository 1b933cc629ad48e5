"""Whatever the chart renders, each release of Kubernetes that it is meant for takes, to the letter."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helm.chart.render import CI, ci, render
from tests.helm.chart.schemas import CUSTOM, RELEASES, faults

pytestmark = pytest.mark.chart

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
_NUMBERS: dict[str, Any] = {
    "fullnameOverride": "y",
    "haproxy": {"enabled": True, "priorityClassName": "0x1"},
    "auth": {"existingSecret": "12"},
    "serviceAccount": {"create": False, "name": "34"},
    "store": {"existingSecret": {"name": "56", "key": "78"}, "tls": {"caSecret": "90", "caKey": "1"}},
    **{part: {"priorityClassName": "0x1"} for part in ("node", "router")},
    "ingress": {"enabled": True, "className": "2", "hosts": ["on"]},
}
_TRIAL: dict[str, Any] = {
    "nameOverride": "off",
    "fullnameOverride": "fleet",
    "store": {"bundled": {"priorityClassName": "3", "persistence": {"storageClass": "4"}}},
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


@pytest.mark.parametrize("values", [_NUMBERS, _TRIAL], ids=["Secrets of one's own", "a trial"])
@pytest.mark.parametrize("name", ["123", "true", "null", "1e3"])
def test_names_that_look_like_something_else_are_names(name: str, values: dict[str, Any]) -> None:
    """Kubernetes and Helm allow them; YAML takes them for numbers, truths and nothing unless they are quoted."""
    objects = render(values, name=name, namespace="123").objects
    assert {each["metadata"]["namespace"] for each in objects} == {"123"}
    assert {each["metadata"]["labels"]["app.kubernetes.io/instance"] for each in objects} == {name}
    assert [fault for each in objects for fault in faults(each, RELEASES[-1])] == []


def test_lists_that_kubernetes_merges_by_a_key_have_each_key_once(made: list[dict[str, Any]]) -> None:
    """What Helm 4 applies is refused otherwise; no schema says so."""
    pods = [each["spec"]["template"]["spec"] for each in made if "template" in each.get("spec", {})]
    containers = [one for pod in pods for one in [*pod["containers"], *pod.get("initContainers", [])]]
    lists = [(pod.get("volumes", []), "name") for pod in pods]
    for field, key in (("env", "name"), ("ports", "containerPort"), ("volumeMounts", "mountPath")):
        lists += [(container.get(field, []), key) for container in containers]
    keys = [[each[key] for each in found] for found, key in lists]
    assert sum(map(len, keys)) > 200
    assert [text for text in keys if len(text) != len(set(text))] == []


def test_of_labels_that_are_said_twice_the_nearer_counts() -> None:
    own = {"team": "all", "app.kubernetes.io/part-of": "shop"}
    monitor = {"serviceMonitor": {"enabled": True, "labels": {"team": "prometheus"}}}
    values = {"commonLabels": own, "node": {"podLabels": {"team": "booking"}}, "metrics": monitor}
    rendered = render({**values, "networkPolicy": {"enabled": False}})
    nodes = rendered.one("StatefulSet", "fleet-framehold-node")
    labels = [nodes, nodes["spec"]["template"], rendered.one("ServiceMonitor", "fleet-framehold-node")]
    assert [each["metadata"]["labels"]["team"] for each in labels] == ["all", "booking", "prometheus"]
    assert {each["metadata"]["labels"]["app.kubernetes.io/part-of"] for each in labels} == {"shop"}


def test_a_misspelt_field_would_be_seen(made: list[dict[str, Any]]) -> None:
    service = next(each for each in made if each["kind"] == "Service")
    assert faults({**service, "spec": {**service["spec"], "selektor": {}}}, RELEASES[-1]) != []
