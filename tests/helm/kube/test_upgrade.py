"""`helm upgrade` under load: nodes and routers are replaced, one by one, and no client hears of it."""

from __future__ import annotations

import asyncio

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.rehearsal import Facts, rehearse
from tests.helm.kube.stand import CLEAN, UNHARMED, clean, harm, stand

MARKED, UNMARKED = 30, 12
THINKS = 2.5
"""Seconds from a node's order to end to the answers that it waits for: more than the 2 s that kubelet gives whoever has
no grace period, and half of what the node has."""


async def upgrade(cluster: Cluster) -> Facts:
    """Everything is rolled while clients call, and while calls are parked on every node."""
    fleet = await stand(cluster)
    marked = await fleet.clients.tell("park", "errand", "marked", MARKED)
    unmarked = await fleet.clients.tell("park", "errand", "unmarked", UNMARKED)
    await fleet.clients.tell("start", 10)
    before = {pod.name: pod.uid for pod in cluster.pods("node")}
    await fleet.change(node__podAnnotations={"rolled": "once"}, router__podAnnotations={"rolled": "once"})
    # The first one that goes has calls that nobody else may carry on: their users take their time.
    await cluster.sees(lambda: cluster.when(fleet.node(2), "terminating"), "the first node's order to end")
    await asyncio.sleep(THINKS)
    answered = await fleet.clients.tell("finish", "unmarked")
    await cluster.settled(90)
    seen = await fleet.clients.tell("stop")
    late = await fleet.clients.tell("finish", "marked")
    return {
        "owners": [sorted(set(marked["owners"])), sorted(set(unmarked["owners"]))],
        "same": [name for name, uid in before.items() if cluster.pod(name).uid == uid],
        "answered": answered,
        "late": late,
        "seen": seen,
        **fleet.judged(),
    }


def test_an_upgrade_of_everything_under_load_fails_no_call_and_repeats_no_effect() -> None:
    """Also calls that were parked all the time, on nodes that are gone: another node, or the one of the same name,
    carries them on. One that only its own process could carry on was answered before that ended."""
    facts = rehearse(upgrade)
    names = [f"fleet-framehold-node-{number}" for number in range(3)]
    assert facts["owners"] == [names, names], "calls were parked on every node"
    assert facts["same"] == [], "every node was replaced"
    assert facts["answered"] == {"finished": UNMARKED, "wrong": []}
    assert facts["late"] == {"finished": MARKED, "wrong": []}
    seen = facts["seen"]
    assert harm(seen) == UNHARMED
    assert seen["completed"] == seen["begun"] > 50, "there was a load"
    assert clean(facts) == CLEAN
