"""Nodes that die, and nodes that hang."""

from __future__ import annotations

import signal

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.rehearsal import Facts, rehearse
from tests.helm.kube.stand import clean, stand

PARKED = 30


async def deaths(cluster: Cluster) -> Facts:
    """One node is killed, another one stopped, and nobody does anything about it."""
    fleet = await stand(cluster, router__replicas=1)
    await fleet.clients.tell("park", "errand", "marked", PARKED)
    killed, hung = cluster.pod(fleet.node(0)), cluster.pod(fleet.node(1))
    address = killed.address
    hung.container().signal(signal.SIGSTOP)
    killed.container().signal(signal.SIGKILL)
    # Their clients come at once: whoever is left takes their calls over when the leases have run out.
    taken = await fleet.clients.tell("finish", "marked")
    finished = cluster.now
    await cluster.sees(lambda: killed.ready and killed.restarts, "the killed node's return")
    await cluster.sees(lambda: hung.ready and hung.restarts, "the end of a node that hangs", 60)
    owners: set[str] = set()
    while len(owners) < 3:
        owners |= set((await fleet.clients.tell("park", "talk", "marked", 10))["owners"])
    return {
        "taken": taken,
        "before_the_hung_one_was_ended": finished < cluster.when(hung.name, "container node ended")[0],
        "same_address": killed.address == address,
        "restarts": [killed.restarts, hung.restarts],
        "owners": sorted(owners),
        "late": await fleet.clients.tell("finish", "marked"),
        **fleet.judged(),
    }


def test_a_killed_node_and_a_hung_one_come_back_under_their_names_and_their_calls_go_on_without_them() -> None:
    """The hung one is ended by its liveness probe, by force since it can't hear; nobody waits for that."""
    facts = rehearse(deaths)
    assert facts["taken"] == {"finished": PARKED, "wrong": []}
    assert facts["before_the_hung_one_was_ended"]
    assert facts["same_address"] and facts["restarts"] == [1, 1]
    assert facts["owners"] == [f"fleet-framehold-node-{number}" for number in range(3)], "all take new calls"
    assert facts["late"]["wrong"] == []
    assert clean(facts) == {"repeated": [], "entered_again": [], "buggy": [], "forced": 1}
