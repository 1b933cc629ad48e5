"""The drill that follows the trial of docs/kubernetes.md: its values are those of the page, its commands are all."""

from __future__ import annotations

import pytest

from tests.helm.docs import page, releases
from tests.kube.drills import trial
from tests.kube.drills.fleet import STORE_IMAGE

pytestmark = pytest.mark.chart

PARTS = (("StatefulSet", "node"), ("Deployment", "router"), ("StatefulSet", "store"))


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
