"""What probes say: readiness of new calls alone, liveness of the process alone."""

from __future__ import annotations

import asyncio
import signal

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.pod import Pod
from tests.helm.kube.probes import status
from tests.helm.kube.rehearsal import Facts, rehearse
from tests.helm.kube.stand import clean, stand

PERIOD = 2.0
"""Of the readiness probes, in seconds."""


async def _answers(pod: Pod, path: str) -> int:
    async with asyncio.timeout(5):
        return await status(pod.address, 8080, path)


async def readiness(cluster: Cluster) -> Facts:
    """The store goes and comes back; a node drains; then there is no node at all."""
    fleet = await stand(cluster, node__replicas=2, router__replicas=1)
    (router,), nodes = cluster.pods("router"), cluster.pods("node")
    store = cluster.pod("fleet-framehold-store-0").container()
    store.signal(signal.SIGSTOP)
    await cluster.sees(lambda: not any(node.ready for node in nodes), "nodes that are not ready")
    # Longer than liveness would take to fail once.
    await asyncio.sleep(11)
    alive = [await _answers(pod, "/healthz") for pod in (*nodes, router)]
    store.signal(signal.SIGCONT)
    await cluster.sees(lambda: all(node.ready for node in nodes) and router.ready, "ready nodes")
    restarts = [pod.restarts for pod in (*nodes, router)]

    parked = await fleet.clients.tell("park", "talk", "unmarked", 10)
    draining = cluster.pod(parked["owners"][0])
    # It was unready before, without the store.
    before = len(cluster.when(draining.name, "unready"))
    draining.delete()
    await cluster.sees(lambda: len(cluster.when(draining.name, "unready")) > before, "a node that is not ready")
    during = await _answers(draining, "/readyz"), await _answers(draining, "/healthz")
    turned = cluster.when(draining.name, "unready")[-1] - cluster.when(draining.name, "terminating")[-1]
    answered = await fleet.clients.tell("finish", "unmarked")
    await cluster.settled()

    # As `kubectl scale` does it; the chart wants one at least.
    cluster.controllers["fleet-framehold-node"].replicas = 0
    await cluster.sees(lambda: not router.ready, "a router that is not ready")
    return {
        "alive": alive,
        "restarts": restarts,
        "during": during,
        "turned": turned,
        "answered": answered,
        "router": [await _answers(router, "/readyz"), await _answers(router, "/healthz"), router.restarts],
        **fleet.judged(),
    }


def test_readiness_turns_at_once_and_liveness_only_where_the_process_hangs() -> None:
    """Without the store nodes take no new calls, and are left alone; a node that drains is not ready within a period of
    its probe, and lives on for what it holds; a router without nodes is not ready."""
    facts = rehearse(readiness)
    assert facts["alive"] == [200, 200, 200] and facts["restarts"] == [0, 0, 0]
    assert facts["during"] == [503, 200]
    assert facts["turned"] <= PERIOD + 0.5
    assert facts["answered"] == {"finished": 10, "wrong": []}
    assert facts["router"] == [503, 200, 0]
    assert clean(facts) == {"repeated": [], "entered_again": [], "buggy": [], "forced": 0}
