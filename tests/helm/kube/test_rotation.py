"""New keys, in three upgrades: the new one opens, the new one seals, the old one is gone."""

from __future__ import annotations

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.rehearsal import Facts, rehearse
from tests.helm.kube.stand import CLEAN, clean, stand

OLD, NEW = "old-" * 8, "new-" * 8
STEPS = ([OLD, NEW], [NEW, OLD], [NEW])
PARKED = 8


async def rotation(cluster: Cluster) -> Facts:
    """Calls that were parked before each upgrade are finished after it, while others begin and end all the time."""
    fleet = await stand(cluster, auth__keys=[OLD], node__replicas=2, router__replicas=1, router__preStopSeconds=2)
    await fleet.clients.tell("start", 2)
    finished = []
    for keys in STEPS:
        await fleet.clients.tell("park", "errand", "marked", PARKED)
        await fleet.change(auth__keys=keys)
        await cluster.settled()
        finished.append(await fleet.clients.tell("finish", "marked"))
    return {"finished": finished, "seen": await fleet.clients.tell("stop"), **fleet.judged()}


def test_keys_are_rotated_in_three_upgrades_and_no_call_is_lost() -> None:
    """While a roll is on, some processes have the key that is to come and others don't: none may seal by it yet."""
    facts = rehearse(rotation)
    assert facts["finished"] == [{"finished": PARKED, "wrong": []}] * len(STEPS)
    seen = facts["seen"]
    assert (seen["unborn"], seen["lost"], seen["wrong"], seen["told_lost"]) == (0, [], [], 0)
    assert clean(facts) == CLEAN
