"""The drills: each parks users, does something to the cluster, and lets the users answer.

A drill is a function of a `Stage`. Its docstring is its description in the report.
"""

from __future__ import annotations

import asyncio
import subprocess
import time

import httpx2
from helm_python import HelmError

from tests.kube.drills import trial
from tests.kube.drills.cluster import CACHE, NAME, Cluster
from tests.kube.drills.fleet import (
    AFTER,
    AUTOSCALED,
    BEFORE,
    CONTOUR_URL,
    FEWEST,
    FRONT_HOST,
    GATEWAY,
    HAPROXY,
    INGRESS,
    LEASE_TTL,
    NEW_KEY,
    NODES,
    OLD_KEY,
    OTHER_TAG,
    PERSISTENT,
    ROLLED,
    STORE_IMAGE,
    bring,
    changed,
    install,
)
from tests.kube.drills.judged import Facts, Wanted, judge, unfinished
from tests.kube.drills.stage import CHECKS, GRACE, Drill, Stage
from tests.kube.drills.users import Crowd

ROUTERS, PROXIES = f"deployment/{NAME}-router", f"deployment/{NAME}-haproxy"
STRANGER = ("--namespace", "default")
LOGS = CACHE / "logs"
"""What the containers logged in a drill that failed, by its name."""
_TRY = """
import socket, sys
for address in sys.argv[1:]:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=2).close()
    except OSError:
        continue
    print(address)
"""
"""Prints those of its arguments, as HOST:PORT, that take a connection."""

_HOG = """
import os, time
open("/proc/1/oom_score_adj", "w").write("1000")
for _ in range(60):
    if os.fork() == 0:
        taken = b"x" * (1 << 24)
        time.sleep(60)
        os._exit(0)
os.wait()
"""
"""Takes the memory of its container. Each of its processes has less than the node, so the kernel kills the node."""


async def deleted(stage: Stage) -> Wanted:
    """`kubectl delete pod` of the node that holds the most calls. All users answer within 20 s of it, while the node
    still waits for its unmarked calls."""
    pod = stage.fullest
    await stage.cluster.kubectl("delete", "pod", pod, "--wait=false")
    await stage.crowd.release(20)
    await stage.back(pod)
    return Wanted(wait=LEASE_TTL + GRACE, reported=False)


async def forced(stage: Stage) -> Wanted:
    """`kubectl delete pod --grace-period=0 --force` of the node that holds the most calls. All users answer at once."""
    pod = stage.fullest
    await stage.kill(pod)
    await stage.crowd.release()
    await stage.back(pod)
    return Wanted(wait=LEASE_TTL + GRACE, died=pod)


async def hung(stage: Stage) -> Wanted:
    """All processes of the node that holds the most calls are stopped (SIGSTOP), until the liveness probe ends it. All
    users answer at once."""
    pod = await stage.cluster.get("pod", stage.fullest)
    # In the names of control groups the driver of this cluster keeps the pod's id as it is.
    stop = f"kill -STOP $(grep -l {pod['metadata']['uid']} /proc/[0-9]*/cgroup | cut -d/ -f3)"
    await stage.cluster.machine(pod["spec"]["nodeName"], "sh", "-c", stop)
    await stage.crowd.release()
    await stage.begun_again(stage.fullest)
    return Wanted(wait=LEASE_TTL + CHECKS + GRACE, died=stage.fullest)


async def upgraded(stage: Stage) -> Wanted:
    """`helm upgrade` with a changed setting and another tag of the images, which rolls all pods. Users answer over
    60 s."""
    answers = asyncio.create_task(stage.crowd.release(60))
    await stage.cluster.install(changed(settings__logLevel="warning", **OTHER_TAG))
    await stage.cluster.settled(nodes=True)
    await answers
    return Wanted(wait=LEASE_TTL + GRACE)


async def source_changed(stage: Stage) -> Wanted:
    """`helm upgrade` to another source of the server, whose tool asks its two questions in the other order. Calls that
    are parked go on with the source that they began with. Users answer over 60 s."""
    answers = asyncio.create_task(stage.crowd.release(60))
    await stage.cluster.install(changed(**AFTER))
    await stage.cluster.settled(nodes=True)
    await answers
    return Wanted(wait=LEASE_TTL + GRACE)


async def rolled_back(stage: Stage) -> Wanted:
    """`helm rollback` to the revision before an upgrade, which rolls all pods. Users answer over 60 s."""
    answers = asyncio.create_task(stage.crowd.release(60))
    await stage.cluster.rollback()
    await stage.cluster.settled(nodes=True)
    await answers
    return Wanted(wait=LEASE_TTL + GRACE)


async def drained(stage: Stage) -> Wanted:
    """`kubectl drain` of one of the two machines, with the chart's PodDisruptionBudgets. Users answer over 40 s. Then
    the machine is back, and `kubectl rollout restart` spreads the routers: Kubernetes moves no pod back by itself."""
    pods = (await stage.cluster.get("pods", "--selector=app.kubernetes.io/component=node"))["items"]
    store = await stage.cluster.get("pod", f"{NAME}-store-0")
    # A single store on the machine that is drained would be another drill.
    machine = next((m for m in {p["spec"]["nodeName"] for p in pods} if m != store["spec"]["nodeName"]), "")
    if not machine:
        raise RuntimeError("all nodes are on the machine of the store: the chart did not spread them")
    answers = asyncio.create_task(stage.crowd.release(40))
    words = ("--ignore-daemonsets", "--delete-emptydir-data", "--timeout=280s")
    try:
        await stage.cluster.kubectl("drain", machine, *words)
        await answers
    finally:
        await stage.cluster.kubectl("uncordon", machine)
        # Also where the drill stops: the next one begins with routers that are spread.
        await stage.cluster.kubectl("rollout", "restart", ROUTERS)
    await stage.cluster.settled()
    return Wanted(wait=LEASE_TTL + GRACE)


async def routers_rolled(stage: Stage) -> Wanted:
    """`kubectl rollout restart` of the routers. Users answer over 20 s."""
    answers = asyncio.create_task(stage.crowd.release(20))
    await stage.restart(ROUTERS)
    await answers
    return Wanted(wait=LEASE_TTL + GRACE, reported=False)


async def scaled(stage: Stage) -> Wanted:
    """`kubectl scale` of the nodes from 3 to 5, to 2, and back to 3. Users answer over 60 s."""
    answers = asyncio.create_task(stage.crowd.release(60))
    # Back to what the values say: Helm 4 refuses the next upgrade if kubectl has set another number.
    for count in (5, 2, NODES):
        await stage.cluster.kubectl("scale", f"statefulset/{NAME}-node", f"--replicas={count}")
        await stage.cluster.settled(nodes=count >= NODES)
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
    return Wanted(wait=LEASE_TTL + GRACE, reported=False)


async def memory_exhausted(stage: Stage) -> Wanted:
    """The kernel kills the node that holds the most calls, because its container uses more memory than its limit. All
    users answer at once."""
    pod = stage.fullest
    await stage.cluster.kubectl("exec", pod, "--", "python", "-c", _HOG, check=False)
    await stage.crowd.release()
    ended = await stage.begun_again(pod)
    if ended["reason"] != "OOMKilled":
        raise RuntimeError(f"{pod} was not killed for its memory: {ended}")
    return Wanted(wait=LEASE_TTL + GRACE, died=pod)


async def keys_rotated(stage: Stage) -> Wanted:
    """New keys, in three runs of `helm upgrade`: the new key opens, the new key seals, the old key is gone. Each rolls
    all pods. Users answer over 100 s; the old key goes when the last of them has answered."""
    answers = asyncio.create_task(stage.crowd.release(100))
    for keys in ([OLD_KEY, NEW_KEY], [NEW_KEY, OLD_KEY]):
        await stage.cluster.install(changed(auth__keys=keys))
        await stage.cluster.settled(nodes=True)
    await answers
    await stage.crowd.ended()
    await stage.cluster.install(changed(auth__keys=[NEW_KEY]))
    await stage.cluster.settled(nodes=True)
    return Wanted(wait=LEASE_TTL + GRACE)


async def store_killed(stage: Stage) -> Wanted:
    """`kubectl delete pod --grace-period=0 --force` of the store, which keeps nothing on a disk, so that it comes back
    empty. No node and no router is started again meanwhile. Users answer over 40 s, from when it was killed."""
    store, before = f"{NAME}-store-0", await stage.restarts()
    answers = asyncio.create_task(stage.crowd.release(40))
    await stage.kill(store)
    await stage.back(store)
    await answers
    if again := await stage.restarts() - before:
        raise RuntimeError(f"containers of nodes and routers were started again {again} times")
    return Wanted(reported=False)


async def persistent_store_killed(stage: Stage) -> Wanted:
    """`kubectl delete pod --grace-period=0 --force` of the store, which keeps its journal on a disk. Users answer over
    40 s, from when it was killed."""
    return await store_killed(stage)


async def installed_again(stage: Stage) -> Wanted:
    """`helm uninstall`, and `helm install` with the same keys and the same disk of the store. All users answer when the
    fleet is there again. Nobody else comes meanwhile."""
    await stage.cluster.uninstall()
    await bring(stage.cluster, **PERSISTENT)
    await stage.crowd.release(20)
    return Wanted(wait=LEASE_TTL + GRACE)


async def autoscaled(stage: Stage) -> Wanted:
    """A HorizontalPodAutoscaler adds nodes because of the visitors, and takes them away when there are none. Users
    answer over 240 s."""
    answers = asyncio.create_task(stage.crowd.release(240))
    seen = f"statefulset/{NAME}-node"

    async def replicas() -> int:
        return int((await stage.cluster.get(seen))["spec"]["replicas"])

    async def grown() -> bool:
        return await replicas() > FEWEST

    async def small() -> bool:
        return not await grown()

    await stage.cluster.until(grown, "the autoscaler added a node")
    await stage.cluster.settled(nodes=True)
    stage.crowd.close()
    await stage.cluster.until(small, "the autoscaler took the nodes away")
    await stage.cluster.settled()
    await answers
    return Wanted(wait=LEASE_TTL + GRACE)


async def haproxy_rolled(stage: Stage) -> Wanted:
    """HAProxy carries /mcp in place of the routers. `kubectl rollout restart` of it, and then `kubectl delete pod
    --grace-period=0 --force` of the node that holds the most calls. Users answer over 40 s."""
    answers = asyncio.create_task(stage.crowd.release(40))
    await stage.restart(PROXIES)
    await stage.kill(stage.fullest)
    await answers
    await stage.back(stage.fullest)
    return Wanted(wait=LEASE_TTL + GRACE, died=stage.fullest)


async def rolled_behind_haproxy(stage: Stage) -> Wanted:
    """HAProxy carries /mcp in place of the routers. `helm upgrade` to one more node and a changed annotation of nodes,
    which rolls all nodes and, since its list of nodes is longer, HAProxy. The new node must get calls. Users answer
    within 20 s, while the first node to go still waits for its unmarked calls."""
    before = await _addresses(stage.cluster)
    answers = asyncio.create_task(stage.crowd.release(20))
    await stage.cluster.install(changed(**ROLLED))
    await stage.cluster.settled(nodes=True)
    await answers
    if stayed := before & await _addresses(stage.cluster):
        raise RuntimeError(f"not all was replaced: {sorted(stayed)}")

    async def served() -> bool:
        return any(f"{NAME}-node-{NODES}" in visit.nodes for visit in stage.crowd.visits)

    await stage.cluster.until(served, "a visit at the new node")
    return Wanted(wait=LEASE_TTL + GRACE, reported=False, refused=False)


async def _addresses(cluster: Cluster) -> set[tuple[str, str]]:
    """The pods of nodes and HAProxy, each by its name and where it is."""
    words = ("pods", "--selector=app.kubernetes.io/component in (node, haproxy)")
    return {(pod["metadata"]["name"], pod["status"]["podIP"]) for pod in (await cluster.get(*words))["items"]}


async def policed(stage: Stage) -> Wanted:
    """A pod of another namespace tries each port of each pod of the fleet. It must reach the routers' port for clients
    and nothing else. Then `kubectl delete pod --grace-period=0 --force` of the node that holds the most calls, and the
    stranger tries again. Users answer over 20 s."""
    image = (f"--image={STORE_IMAGE}", "--image-pull-policy=Never", "--command", "--", "sleep", "3600")
    await stage.cluster.kubectl(*STRANGER, "run", "stranger", *image)
    try:
        await stage.cluster.kubectl(*STRANGER, "wait", "--for=condition=Ready", "pod/stranger", "--timeout=120s")
        await _tried_by_a_stranger(stage.cluster)
        answers = asyncio.create_task(stage.crowd.release(20))
        await stage.kill(stage.fullest)
        await answers
        await stage.back(stage.fullest)
        await _tried_by_a_stranger(stage.cluster)
    finally:
        await stage.cluster.kubectl(*STRANGER, "delete", "pod", "stranger", "--grace-period=0", "--force")
    return Wanted(wait=LEASE_TTL + GRACE, died=stage.fullest)


async def _tried_by_a_stranger(cluster: Cluster) -> None:
    ports: dict[str, str] = {}
    for pod in (await cluster.get("pods"))["items"]:
        part = pod["metadata"]["labels"]["app.kubernetes.io/component"]
        for container in pod["spec"]["containers"]:
            for port in container["ports"]:
                ports[f"{pod['status']['podIP']}:{port['containerPort']}"] = f"{part} {port['name']}"
    printed = await cluster.kubectl(*STRANGER, "exec", "stranger", "--", "python3", "-c", _TRY, *ports)
    reached = {ports[address] for address in printed.split()}
    if reached != {"router http"}:
        raise RuntimeError(f"of {sorted(set(ports.values()))} a stranger's pod reached {sorted(reached)}")


async def behind_ingress(stage: Stage) -> Wanted:
    """An Ingress (Contour) in front. It must answer 404 on `/metrics`, `/api` and `/dashboard`. Then `kubectl rollout
    restart` of the routers, and `kubectl delete pod --grace-period=0 --force` of the node that holds the most calls.
    Users answer over 40 s."""
    return await _behind_contour(stage)


async def behind_gateway(stage: Stage) -> Wanted:
    """A Gateway (Contour) in front, with an HTTPRoute. It must answer 404 on `/metrics`, `/api` and `/dashboard`. Then
    `kubectl rollout restart` of the routers, and `kubectl delete pod --grace-period=0 --force` of the node that holds
    the most calls. Users answer over 40 s."""
    return await _behind_contour(stage)


async def _behind_contour(stage: Stage) -> Wanted:
    answers = asyncio.create_task(stage.crowd.release(40))
    async with httpx2.AsyncClient(headers={"host": FRONT_HOST}) as http:
        for path in ("/metrics", "/api/v1/nodes", "/dashboard/"):
            status = (await http.get(CONTOUR_URL.removesuffix("/mcp") + path)).status_code
            if status != 404:
                raise RuntimeError(f"what is in front answers {status} on {path}")
    await stage.restart(ROUTERS)
    await stage.kill(stage.fullest)
    await answers
    await stage.back(stage.fullest)
    return Wanted(wait=LEASE_TTL + GRACE, died=stage.fullest)


DRILLS: dict[str, Drill] = {
    "helm test": Drill(trial.tested),
    "pod deleted": Drill(deleted),
    "pod deleted by force": Drill(forced),
    "node hung": Drill(hung),
    "upgrade": Drill(upgraded),
    "source changed": Drill(source_changed, BEFORE),
    "rollback": Drill(rolled_back),
    "machine drained": Drill(drained),
    "routers rolled": Drill(routers_rolled),
    "nodes 3, 5, 2, 3": Drill(scaled),
    "kubelet stopped": Drill(kubelet_stopped),
    "memory exhausted": Drill(memory_exhausted),
    "keys rotated": Drill(keys_rotated),
    "store killed": Drill(store_killed),
    "store with a disk killed": Drill(persistent_store_killed, PERSISTENT, apart=True),
    "uninstalled, installed": Drill(installed_again, PERSISTENT, apart=True, visitors=0),
    "autoscaled": Drill(autoscaled, AUTOSCALED, apart=True),
    "HAProxy": Drill(haproxy_rolled, HAPROXY, apart=True),
    "HAProxy, nodes rolled": Drill(rolled_behind_haproxy, HAPROXY, apart=True),
    "NetworkPolicies": Drill(policed),
    "Ingress": Drill(behind_ingress, INGRESS, apart=True, url=CONTOUR_URL, host=FRONT_HOST),
    "Gateway": Drill(behind_gateway, GATEWAY, apart=True, url=CONTOUR_URL, host=FRONT_HOST),
}


def describe(name: str) -> str:
    """What a drill does, in a line."""
    return " ".join((DRILLS[name].act.__doc__ or "").split())


async def carry_out(name: str, cluster: Cluster, users: int) -> Facts:
    """One drill, on a fleet that is as installed. A drill that could not be carried out to its end has failed."""
    drill = DRILLS[name]
    crowd = Crowd(drill.url, users - users // 2, users // 2, drill.visitors, drill.host)
    try:
        facts = await _tried(name, cluster, crowd)
        if not facts.passed:
            await cluster.keep_logs(LOGS / name)
        return facts
    finally:
        await crowd.sent_home()
        if drill.apart:
            await cluster.uninstall()


async def _tried(name: str, cluster: Cluster, crowd: Crowd) -> Facts:
    try:
        return await _carried_out(name, cluster, crowd)
    except (RuntimeError, subprocess.CalledProcessError, httpx2.HTTPError, HelmError) as error:
        return unfinished(name, f"the drill stopped: {error}")


async def _carried_out(name: str, cluster: Cluster, crowd: Crowd) -> Facts:
    drill = DRILLS[name]
    if drill.apart:
        await cluster.uninstall()
    ledger = await install(cluster, **drill.values)
    stage = Stage(cluster, crowd, await crowd.park())
    began = time.monotonic()
    wanted = await drill.act(stage)
    seconds = time.monotonic() - began
    await crowd.gone()
    return judge(name, seconds, stage.nodes.count(stage.fullest), crowd.users, crowd.visits, ledger, wanted)
