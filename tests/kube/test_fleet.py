"""The values of the drills: the chart takes them, and its objects are called what the drills call them."""

from __future__ import annotations

import pytest

from tests.helm.chart.render import render
from tests.kube.drills.cluster import FRONT, NAME, NAMESPACE, RELEASE
from tests.kube.drills.drills import DRILLS
from tests.kube.drills.fleet import HAPROXY, ROLLED, VALUES, changed

pytestmark = pytest.mark.chart


def test_the_chart_takes_them_under_the_names_that_drills_know() -> None:
    made = render(VALUES, name=RELEASE, namespace=NAMESPACE)
    assert made.one("StatefulSet", f"{NAME}-node")["spec"]["replicas"] == VALUES["node"]["replicas"]
    assert made.one("Deployment", f"{NAME}-router")
    assert made.one("StatefulSet", f"{NAME}-store")
    assert made.one("Service", NAME)["spec"]["type"] == "LoadBalancer"


@pytest.mark.parametrize("name", [name for name, drill in DRILLS.items() if drill.values])
def test_the_chart_takes_the_values_of_each_drill(name: str) -> None:
    drill = DRILLS[name]
    made = render(changed(**drill.values), name=RELEASE, namespace=NAMESPACE)
    assert made.objects != render(VALUES, name=RELEASE, namespace=NAMESPACE).objects
    if drill.host:
        [front] = [*made.of("Ingress"), *made.of("HTTPRoute")]
        spec = front["spec"]
        assert (spec.get("hostnames") or [rule["host"] for rule in spec["rules"]]) == [drill.host]


def test_nodes_answer_to_the_front_address() -> None:
    (node,) = render(VALUES, name=RELEASE).one("StatefulSet", f"{NAME}-node")["spec"]["template"]["spec"]["containers"]
    hosts = next(item["value"] for item in node["env"] if item["name"] == "FRAMEHOLD_ALLOWED_HOSTS")
    assert FRONT in hosts.split(",")


def test_a_change_leaves_the_other_values_and_the_values_themselves() -> None:
    made = changed(node__replicas=5)
    assert made["node"]["replicas"] == 5
    assert made["node"]["image"] == VALUES["node"]["image"]
    assert VALUES["node"]["replicas"] == 3


def test_the_roll_behind_haproxy_makes_nodes_and_haproxy_new() -> None:
    made = [render(changed(**values), name=RELEASE, namespace=NAMESPACE) for values in (HAPROXY, ROLLED)]
    nodes, haproxies = (
        [each.one(kind, f"{NAME}-{part}")["spec"]["template"]["metadata"]["annotations"] for each in made]
        for kind, part in (("StatefulSet", "node"), ("Deployment", "haproxy"))
    )
    assert [each.get("rolled") for each in nodes] == [None, "once"]
    assert haproxies[0]["checksum/config"] != haproxies[1]["checksum/config"]
