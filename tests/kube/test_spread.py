"""After a roll the pods of a part are spread over the machines, or the drill has failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.kube.drills.cluster import Cluster
from tests.kube.drills.spread import FRONT, crowded

pytestmark = [pytest.mark.anyio, pytest.mark.chart]


def pod(part: str, machine: str, *, ends: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": {"app.kubernetes.io/component": part}}
    return {"metadata": metadata | ({"deletionTimestamp": "now"} if ends else {}), "spec": {"nodeName": machine}}


def machine(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec}


MACHINES = [machine("node1"), machine("node2")]
CROWDED = [pod("router", "node1"), pod("router", "node1"), pod("haproxy", "node2")]


@pytest.mark.parametrize(
    ("pods", "machines"),
    [
        ([pod("router", "node1"), pod("router", "node2")], MACHINES),
        ([pod("router", "node1"), pod("router", "node1"), pod("router", "node2")], MACHINES),
        ([pod("router", "node1"), pod("router", "node1", ends=True), pod("router", "node2")], MACHINES),
        ([pod("node", "node1"), pod("node", "node1")], MACHINES),
        (CROWDED, [machine("node1"), machine("node2", unschedulable=True)]),
        ([], MACHINES),
    ],
    ids=["one each", "one more", "one that ends", "another part", "a machine that takes no pod", "none"],
)
def test_what_is_as_even_as_it_can_be_is_not_crowded(
    pods: list[dict[str, Any]], machines: list[dict[str, Any]]
) -> None:
    assert crowded(pods, machines, FRONT) == []


NODES = [pod("node", "node1"), pod("node", "node2")]
ROUTERS = [pod("router", "node1"), pod("router", "node2")]


def made(kind: str, part: str, replicas: int) -> dict[str, Any]:
    metadata = {"name": f"fleet-{part}", "labels": {"app.kubernetes.io/component": part}}
    return {"kind": kind, "metadata": metadata, "spec": {"replicas": replicas}}


class Told(Cluster):
    """A cluster of which kubectl says what a test wants."""

    def __init__(self, *pods: list[dict[str, Any]]) -> None:
        """`pods`: what is said of them each time that it asks; the last is said from then on."""
        self.release = "fleet"
        self.asked: list[tuple[str, ...]] = []
        self._pods = list(pods)

    async def kubectl(self, *words: str, check: bool = True) -> str:
        self.asked.append(words)
        match words:
            case ("get", "statefulset,deployment", *_):
                return json.dumps({"items": [made("StatefulSet", "node", 2), made("Deployment", "router", 2)]})
            case ("get", "pods", *_):
                pods = self._pods.pop(0) if len(self._pods) > 1 else self._pods[0]
                return json.dumps({"items": pods})
            case ("get", "nodes", *_):
                return json.dumps({"items": MACHINES})
        return ""


async def test_a_release_that_is_rolled_out_but_crowded_stops_the_drill() -> None:
    cluster = Told([pod("router", "node1"), pod("router", "node1"), *NODES])
    with pytest.raises(RuntimeError, match="router is not spread: node1 has 2, node2 has 0"):
        await cluster.settled()
    waited = [words[2] for words in cluster.asked if words[:2] == ("rollout", "status")]
    assert waited == ["StatefulSet/fleet-node", "Deployment/fleet-router"]
    # Nodes are looked at where they were rolled.
    cluster = Told([pod("node", "node1"), pod("node", "node1"), *ROUTERS])
    await cluster.settled()
    with pytest.raises(RuntimeError, match="node is not spread: node1 has 2, node2 has 0"):
        await cluster.settled(nodes=True)


async def test_a_pod_that_still_ends_is_waited_for() -> None:
    """Its stateful set counts it as ready, and makes the one of its name afterwards."""
    ending = [pod("node", "node1"), pod("node", "node2", ends=True), *ROUTERS]
    cluster = Told(ending, [*NODES, *ROUTERS])
    await cluster.settled(nodes=True)
    assert [words[:2] for words in cluster.asked].count(("get", "pods")) == 3
