"""The drills: each parks users, does something to the cluster, and lets the users answer.

A drill is a function of a `Stage`. Its docstring is its description in the documentation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.fleet.ledger import Ledger
from tests.kube.drills.cluster import NAME, Cluster
from tests.kube.drills.fleet import LEASE_TTL, NEW_KEY, OLD_KEY, URL, changed, install
from tests.kube.drills.judged import Facts, Wanted, judge
from tests.kube.drills.users import Crowd

GRACE = 2.0
"""Seconds that a takeover may take beyond the lease."""


@dataclass
class Stage:
    """A fleet that is installed, with its users parked. `nodes`: the pod of each user's call."""

    cluster: Cluster
    crowd: Crowd
    nodes: list[str]

    @property
    def fullest(self) -> str:
        """The pod that holds the most calls."""
        return max(sorted(set(self.nodes)), key=self.nodes.count)

    async def back(self, pod: str) -> None:
        """Wait until a pod of that name is ready again."""
        await self.cluster.kubectl("wait", "--for=condition=Ready", f"pod/{pod}", "--timeout=300s")


Drill = Callable[[Stage], Awaitable[Wanted]]


async def deleted(stage: Stage) -> Wanted:
    """`kubectl delete pod` of the node that holds the most calls. All users answer within 20 s of it, while the node
    still waits for its unmarked calls."""
    pod = stage.fullest
    await stage.cluster.kubectl("delete", "pod", pod, "--wait=false")
    await stage.crowd.release(20)
    await stage.back(pod)
    return Wanted(wait=LEASE_TTL + GRACE, told=False)


async def forced(stage: Stage) -> Wanted:
    """`kubectl delete pod --grace-period=0 --force` of the node that holds the most calls. All users answer at once."""
    pod = stage.fullest
    await stage.cluster.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
    await stage.crowd.release()
    await stage.back(pod)
    return Wanted(wait=LEASE_TTL + GRACE)


async def upgraded(stage: Stage) -> Wanted:
    """`helm upgrade` with a changed setting of nodes and routers, which rolls all pods. Users answer over 60 s."""
    answers = asyncio.create_task(stage.crowd.release(60))
    await stage.cluster.install(changed(settings__logLevel="warning"))
    await stage.cluster.settled()
    await answers
    return Wanted(wait=LEASE_TTL + GRACE)


async def rolled_back(stage: Stage) -> Wanted:
    """`helm rollback` to the revision before an upgrade, which rolls all pods. Users answer over 60 s."""
    answers = asyncio.create_task(stage.crowd.release(60))
    await stage.cluster.rollback()
    await stage.cluster.settled()
    await answers
    return Wanted(wait=LEASE_TTL + GRACE)


async def drained(stage: Stage) -> Wanted:
    """`kubectl drain` of one of the two machines, with the chart's PodDisruptionBudgets. Users answer over 40 s."""
    pods = (await stage.cluster.get("pods", "--selector=app.kubernetes.io/component=node"))["items"]
    store = await stage.cluster.get("pod", f"{NAME}-store-0")
    # A single store on the machine that is drained would be another drill.
    machine = next(m for m in sorted({p["spec"]["nodeName"] for p in pods}) if m != store["spec"]["nodeName"])
    answers = asyncio.create_task(stage.crowd.release(40))
    words = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=280s")
    try:
        await stage.cluster.kubectl("drain", machine, *words)
        await answers
    finally:
        await stage.cluster.kubectl("uncordon", machine)
    return Wanted(wait=LEASE_TTL + GRACE)


async def routers_rolled(stage: Stage) -> Wanted:
    """`kubectl rollout restart` of the routers. Users answer over 20 s."""
    answers = asyncio.create_task(stage.crowd.release(20))
    await stage.cluster.kubectl("rollout", "restart", f"deployment/{NAME}-router")
    await stage.cluster.settled()
    await answers
    return Wanted(wait=LEASE_TTL + GRACE, told=False)


async def scaled(stage: Stage) -> Wanted:
    """`kubectl scale` of the nodes from 3 to 5 and to 2. Users answer over 60 s."""
    answers = asyncio.create_task(stage.crowd.release(60))
    for count in (5, 2):
        await stage.cluster.kubectl("scale", f"statefulset/{NAME}-node", f"--replicas={count}")
        await stage.cluster.settled()
    await answers
    return Wanted(wait=LEASE_TTL + GRACE)


async def kubelet_stopped(stage: Stage) -> Wanted:
    """The kubelet of a machine is killed for 70 s, so that Kubernetes calls the machine NotReady and takes its pods out
    of Services, though they go on. Users answer over 60 s."""
    machine = (await stage.cluster.get("pod", stage.fullest))["spec"]["nodeName"]
    await stage.cluster.machine(machine, "sh", "-c", "kill -9 $(cat /run/kube/kubelet.pid)")
    await stage.crowd.release(60)
    ready = '{.status.conditions[?(@.type=="Ready")].status}'
    unready = ("get", "node", machine, "--output", f"jsonpath={ready}")

    async def noticed() -> bool:
        return await stage.cluster.kubectl(*unready) == "Unknown"

    await stage.cluster.until(noticed, f"{machine} is NotReady")
    await stage.cluster.machine(machine, "/opt/kube/scripts/node.sh", machine.removeprefix("node"), "kubelet")
    await stage.cluster.kubectl("wait", "--for=condition=Ready", f"node/{machine}", "--timeout=120s")
    return Wanted(wait=LEASE_TTL + GRACE, told=False)


async def memory_exhausted(stage: Stage) -> Wanted:
    """The kernel kills the node that holds the most calls, because its container uses more memory than its limit. All
    users answer at once."""
    pod = stage.fullest
    # Another process of the container takes the memory, and has the kernel prefer the node.
    hog = "open('/proc/1/oom_score_adj', 'w').write('1000'); b = []\nwhile True: b.append(bytearray(1 << 24))"
    await stage.cluster.kubectl("exec", pod, "--", "python", "-c", hog, check=False)
    await stage.crowd.release()
    await stage.back(pod)
    [container] = (await stage.cluster.get("pod", pod))["status"]["containerStatuses"]
    if container["lastState"].get("terminated", {}).get("reason") != "OOMKilled":
        raise RuntimeError(f"{pod} was not killed for its memory: {container['lastState']}")
    return Wanted(wait=LEASE_TTL + GRACE)


async def keys_rotated(stage: Stage) -> Wanted:
    """New keys, in three runs of `helm upgrade`: the new key opens, the new key seals, the old key is gone. Each rolls
    all pods. Users answer over 150 s."""
    answers = asyncio.create_task(stage.crowd.release(150))
    for keys in ([OLD_KEY, NEW_KEY], [NEW_KEY, OLD_KEY], [NEW_KEY]):
        await stage.cluster.install(changed(auth__keys=keys))
        await stage.cluster.settled()
    await answers
    return Wanted(wait=LEASE_TTL + GRACE)


async def store_killed(stage: Stage) -> Wanted:
    """`kubectl delete pod --grace-period=0 --force` of the store, which keeps nothing on a disk, so that it comes back
    empty. Users answer over 40 s, from when it was killed."""
    store = f"{NAME}-store-0"
    answers = asyncio.create_task(stage.crowd.release(40))
    await stage.cluster.kubectl("delete", "pod", store, "--grace-period=0", "--force")
    await stage.back(store)
    await answers
    return Wanted(told=False)


DRILLS: dict[str, Drill] = {
    "pod deleted": deleted,
    "pod deleted by force": forced,
    "upgrade": upgraded,
    "rollback": rolled_back,
    "machine drained": drained,
    "routers rolled": routers_rolled,
    "nodes 3, 5, 2": scaled,
    "kubelet stopped": kubelet_stopped,
    "memory exhausted": memory_exhausted,
    "keys rotated": keys_rotated,
    "store killed": store_killed,
}


def describe(name: str) -> str:
    """What a drill does, in a line."""
    return " ".join((DRILLS[name].__doc__ or "").split())


async def carry_out(name: str, cluster: Cluster, users: int) -> Facts:
    """One drill, on a fleet that is as installed."""
    ledger: Ledger = await install(cluster)
    crowd = Crowd(URL, users - users // 2, users // 2)
    stage = Stage(cluster, crowd, await crowd.park())
    began = time.monotonic()
    wanted = await DRILLS[name](stage)
    seconds = time.monotonic() - began
    await crowd.gone()
    return judge(name, seconds, stage.nodes.count(stage.fullest), crowd.users, crowd.visits, ledger, wanted)
