"""The values of the drills: the chart takes them, and its objects are called what the drills call them. The drill that
follows the trial of docs/kubernetes.md has the values of the page, and all its commands."""

from __future__ import annotations

import pytest

from tests.helm.chart.render import render
from tests.helm.docs import page, releases
from tests.kube.drills import trial
from tests.kube.drills.cluster import FRONT, NAME, NAMESPACE, RELEASE
from tests.kube.drills.drills import DRILLS
from tests.kube.drills.fleet import HAPROXY, ROLLED, STORE_IMAGE, VALUES, changed

pytestmark = pytest.mark.chart


PARTS = (("StatefulSet", "node"), ("Deployment", "router"), ("StatefulSet", "store"))


def test_the_chart_takes_them_under_the_names_that_drills_know() -> None:
    made = render(VALUES, name=RELEASE, namespace=NAMESPACE)
    assert made.one("Service", NAME)["spec"]["type"] == "LoadBalancer"
    assert [made.one(kind, f"{NAME}-{part}")["spec"]["replicas"] for kind, part in PARTS] == [3, 2, 1]
    (node,) = made.one("StatefulSet", f"{NAME}-node")["spec"]["template"]["spec"]["containers"]
    hosts = next(item["value"] for item in node["env"] if item["name"] == "FRAMEHOLD_ALLOWED_HOSTS")
    assert FRONT in hosts.split(","), "nodes answer to the front address"


@pytest.mark.parametrize("name", [name for name, drill in DRILLS.items() if drill.values])
def test_the_chart_takes_the_values_of_each_drill(name: str) -> None:
    drill = DRILLS[name]
    made = render(changed(**drill.values), name=RELEASE, namespace=NAMESPACE)
    assert made.objects != render(VALUES, name=RELEASE, namespace=NAMESPACE).objects
    if drill.host:
        [front] = [*made.of("Ingress"), *made.of("HTTPRoute")]
        spec = front["spec"]
        assert (spec.get("hostnames") or [rule["host"] for rule in spec["rules"]]) == [drill.host]


def test_the_roll_behind_haproxy_makes_nodes_and_haproxy_new() -> None:
    made = [render(changed(**values), name=RELEASE, namespace=NAMESPACE) for values in (HAPROXY, ROLLED)]
    nodes, haproxies = (
        [each.one(kind, f"{NAME}-{part}")["spec"]["template"]["metadata"]["annotations"] for each in made]
        for kind, part in (("StatefulSet", "node"), ("Deployment", "haproxy"))
    )
    assert [each.get("rolled") for each in nodes] == [None, "once"]
    assert haproxies[0]["checksum/config"] != haproxies[1]["checksum/config"]


def test_it_installs_what_the_page_says_with_images_of_the_cluster() -> None:
    made = releases.rendered(trial.installed())
    assert {image.rpartition(":")[2] for image in releases.images(made)} == {"local"}
    assert STORE_IMAGE in releases.images(made)
    assert made.one("ConfigMap", f"{page.RELEASE}-source")["data"] == {"server.py": releases.server()}
    assert made.one("StatefulSet", f"{page.RELEASE}-store")["spec"].get("volumeClaimTemplates") is None
    replicas = {part: made.one(kind, f"{page.RELEASE}-{part}")["spec"]["replicas"] for kind, part in PARTS}
    assert replicas == trial.PODS


def test_the_pod_of_helm_test_calls_the_tool_of_the_page() -> None:
    (pod,) = releases.rendered(trial.upgraded()).of("Pod")
    (container,) = pod["spec"]["containers"]
    assert container["command"][-2:] == ["order", "item=tea"]
    assert {"name": "ANSWERS", "value": f"{trial.ANSWER}\n"} in container["env"]


def test_its_commands_are_those_of_the_page_and_the_last_one_empties_a_node() -> None:
    commands = trial.typed()
    assert {command.split()[1] for command in commands} >= {"call", "doctor", "leases", "nodes", "status"}
    assert [command.split()[1] for command in commands].index("drain") == len(commands) - 1
    assert len([command for command in commands if command.startswith("framehold call")]) == 1
