"""What each kind of installation is made of, to the letter; and what must hold of all of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helm.chart.golden import CASES, changes, read, rendered
from tests.helm.chart.reach import chosen
from tests.helm.chart.render import CI, Object, Rendered, render
from tests.helm.chart.schemas import CUSTOM, RELEASES, faults

pytestmark = pytest.mark.chart

ALL = ("usual", *CASES)
PLAIN = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
HARDENED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def workloads(what: Rendered) -> list[Object]:
    return what.of("Deployment") + what.of("StatefulSet")


@pytest.fixture(scope="module")
def every() -> list[Object]:
    """Every object of every kind of installation, each text once."""
    objects = {repr(each): each for case in ALL for each in rendered(case).objects}
    return [each for each in objects.values() if each["kind"] not in CUSTOM]


@pytest.mark.parametrize("case", ALL)
def test_an_installation_is_what_was_found_right(case: str) -> None:
    """To change it: `python -m tests.helm.chart.golden`, then read what it changed."""
    assert changes(case) == (read(case) if case == "usual" else read(case)["changes"])


def test_each_file_of_values_has_its_golden_file() -> None:
    assert {case for case in CASES if case.startswith("ci-")} == {f"ci-{kind}" for kind in CI}


@pytest.mark.parametrize("release", RELEASES)
def test_a_release_of_kubernetes_takes_every_object(release: str, every: list[Object]) -> None:
    assert len(every) > 100 and (RELEASES[0][:5], len(RELEASES)) == ("1.28.", 10)
    assert [fault for each in every for fault in faults(each, release)] == []


def test_a_misspelt_field_would_be_seen(every: list[Object]) -> None:
    service = next(each for each in every if each["kind"] == "Service")
    assert faults({**service, "spec": {**service["spec"], "selektor": {}}}, RELEASES[-1]) != []


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


@pytest.mark.parametrize("values", [_NUMBERS, _TRIAL], ids=["Secrets of one's own", "a trial"])
@pytest.mark.parametrize("name", ["123", "true", "null", "1e3"])
def test_names_that_look_like_something_else_are_names(name: str, values: dict[str, Any]) -> None:
    """Kubernetes and Helm allow them; YAML takes them for numbers, truths and nothing unless they are quoted."""
    objects = render(values, name=name, namespace="123").objects
    assert {each["metadata"]["namespace"] for each in objects} == {"123"}
    assert {each["metadata"]["labels"]["app.kubernetes.io/instance"] for each in objects} == {name}
    assert [fault for each in objects for fault in faults(each, RELEASES[-1])] == []


def test_lists_that_kubernetes_merges_by_a_key_have_each_key_once(every: list[Object]) -> None:
    """What Helm 4 applies is refused otherwise; no schema says so."""
    pods = [each["spec"]["template"]["spec"] for each in every if "template" in each.get("spec", {})]
    containers = [one for pod in pods for one in [*pod["containers"], *pod.get("initContainers", [])]]
    lists = [(pod.get("volumes", []), "name") for pod in pods]
    for field, key in (("env", "name"), ("ports", "containerPort"), ("volumeMounts", "mountPath")):
        lists += [(container.get(field, []), key) for container in containers]
    keys = [[each[key] for each in found] for found, key in lists]
    assert sum(map(len, keys)) > 200
    assert [text for text in keys if len(text) != len(set(text))] == []


@pytest.mark.parametrize("case", [case for case in ALL if case not in ("platform", "own")])
def test_no_pod_may_do_more_than_it_needs(case: str) -> None:
    pods = [each["spec"]["template"]["spec"] for each in workloads(rendered(case))]
    assert len(pods) >= 2
    for pod in pods:
        # OpenShift chooses a user itself.
        assert pod["securityContext"].items() >= PLAIN.items()
        assert case == "ci-openshift" or pod["securityContext"]["runAsUser"] > 0
        assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"] == HARDENED
            assert container["resources"]["limits"]["memory"], "a container without a limit on memory"


@pytest.mark.parametrize("case", [case for case in ALL if case not in ("platform", "own")])
def test_a_drain_of_machines_takes_one_pod_of_a_kind_at_once(case: str) -> None:
    """A budget of two kinds, or of another fleet, would be a budget of neither."""
    labels = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in workloads(rendered(case))
    }
    guarded = set()
    for budget in rendered(case).of("PodDisruptionBudget"):
        assert budget["spec"]["maxUnavailable"] == 1
        [held] = [name for name in labels if chosen(budget["spec"]["selector"], labels[name])]
        assert held == budget["metadata"]["name"]
        guarded.add(held)
    assert guarded == labels.keys() - {"fleet-framehold-store"}


def test_every_selector_finds_the_pods_that_it_is_meant_for() -> None:
    found = workloads(rendered("usual"))
    labels = {each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in found}
    services = {
        each["metadata"]["name"]: [
            name for name in labels if chosen({"matchLabels": each["spec"]["selector"]}, labels[name])
        ]
        for each in rendered("usual").of("Service")
    }
    assert services == {"fleet-framehold": ["fleet-framehold-haproxy"]} | {name: [name] for name in labels}
    assert len(labels) == 4
    for each in found:
        own = labels[each["metadata"]["name"]]
        spread = each["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
        selectors = [each["spec"]["selector"], *(rule["labelSelector"] for rule in spread)]
        assert all(chosen(selector, own) for selector in selectors)
