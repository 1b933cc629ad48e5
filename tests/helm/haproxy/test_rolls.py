"""HAProxy in a cluster, where nodes have names and change their addresses: everything is rolled, and no client hears of
it."""

from __future__ import annotations

from time import monotonic

import pytest

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.rehearsal import Facts, rehearse
from tests.helm.kube.stand import CLEAN, UNHARMED, Stand, clean, harm, stand

pytestmark = [pytest.mark.chart, pytest.mark.fleet]

MARKED, UNMARKED = 30, 12


async def rolls(cluster: Cluster) -> Facts:
    """Nodes are replaced while clients call, and while calls are parked on every node; there is one more in the end, so
    HAProxy is replaced too: its list is longer."""
    fleet = await stand(cluster, haproxy__enabled=True, haproxy__replicas=1, router__replicas=1)
    marked = await fleet.clients.tell("park", "errand", "marked", MARKED)
    unmarked = await fleet.clients.tell("park", "errand", "unmarked", UNMARKED)
    await fleet.clients.tell("start", 6)
    before = {pod.name for pod in cluster.pods("haproxy")}
    addresses = {pod.name: pod.address for pod in cluster.pods("node")}
    await fleet.change(node__podAnnotations={"rolled": "once"}, node__replicas=4)
    await cluster.sees(lambda: cluster.when(fleet.node(2), "terminating"), "the first node's order to end")
    answered = await fleet.clients.tell("finish", "unmarked")
    rolled = await cluster.settled(90)
    return {
        "owners": [sorted(set(marked["owners"])), sorted(set(unmarked["owners"]))],
        "stayed": [name for name, address in addresses.items() if cluster.pod(name).address == address],
        "old": sorted(before & {pod.name for pod in cluster.pods("haproxy")}),
        "answered": answered,
        "new_owners": await _new_owners(fleet),
        "seen": await fleet.clients.tell("stop"),
        "late": await fleet.clients.tell("finish", "marked"),
        "rolled": rolled,
        **fleet.judged(),
    }


async def _new_owners(fleet: Stand, seconds: float = 10) -> list[str]:
    """The nodes that get new calls: all, as soon as HAProxy knows the last one's new address (it asks each second) and
    has checked it (each second too), and enough calls have begun."""
    owners: set[str] = set()
    until = monotonic() + seconds
    while len(owners) < 4 and monotonic() < until:
        owners |= set((await fleet.clients.tell("park", "talk", "marked", 5))["owners"])
    return sorted(owners)


def test_nodes_and_haproxies_are_rolled_under_load_and_no_call_fails() -> None:
    """Nodes are found by their names, at new addresses; one more is found as soon as it is there."""
    facts = rehearse(rolls, 180)
    names = [f"fleet-framehold-node-{number}" for number in range(4)]
    assert facts["owners"] == [names[:3], names[:3]], "calls were parked on every node"
    assert facts["stayed"] == [] and facts["old"] == [], "all was replaced"
    assert facts["answered"] == {"finished": UNMARKED, "wrong": []}
    assert facts["late"]["wrong"] == []
    seen = facts["seen"]
    assert harm(seen) == UNHARMED
    assert seen["completed"] == seen["begun"] > 50, "there was a load"
    assert facts["new_owners"] == names, "the new node gets calls"
    assert clean(facts) == CLEAN
