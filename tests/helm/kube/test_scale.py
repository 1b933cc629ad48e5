"""A node less, and a node more."""

from __future__ import annotations

import re
from collections import Counter

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.rehearsal import Facts, rehearse
from tests.helm.kube.stand import CLEAN, clean, stand

PARKED = 30


async def scale(cluster: Cluster) -> Facts:
    """From three nodes to two, and back, while clients call."""
    fleet = await stand(cluster, router__replicas=1)
    parked = await fleet.clients.tell("park", "errand", "marked", PARKED)
    await fleet.clients.tell("start", 4)
    await fleet.change(node__replicas=2)
    await cluster.settled()
    left = [pod.name for pod in cluster.pods("node")]
    (gone,) = cluster.controllers["fleet-framehold-node"].gone
    await fleet.change(node__replicas=3)
    await cluster.settled()
    fresh = await fleet.clients.tell("park", "talk", "marked", PARKED)
    late = await fleet.clients.tell("finish", "marked")
    return {
        "parked": Counter(parked["owners"]),
        "left": left,
        "handed_off": int(re.findall(r"drained: (\d+) calls handed off", gone.log.read_text())[-1]),
        "fresh": Counter(fresh["owners"]),
        "late": late,
        "seen": await fleet.clients.tell("stop"),
        **fleet.judged(),
    }


def test_scaling_in_hands_the_calls_of_the_last_node_off_and_scaling_out_gives_it_new_ones() -> None:
    """The highest number goes, and comes again; who was parked there is carried on by another, at once."""
    facts = rehearse(scale)
    last = "fleet-framehold-node-2"
    assert facts["handed_off"] >= facts["parked"][last] > 0
    assert facts["left"] == ["fleet-framehold-node-0", "fleet-framehold-node-1"]
    assert facts["fresh"][last] > 0, "it takes new calls"
    assert facts["late"] == {"finished": 2 * PARKED, "wrong": []}
    assert (facts["seen"]["unborn"], facts["seen"]["lost"], facts["seen"]["wrong"]) == (0, [], [])
    assert clean(facts) == CLEAN
