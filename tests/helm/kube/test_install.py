"""`helm install` with nothing said, and what its containers are."""

from __future__ import annotations

from pathlib import Path

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.pod import Pod
from tests.helm.kube.rehearsal import Facts, rehearse


async def install(cluster: Cluster) -> Facts:
    """From nothing to `helm test`, which calls the example's tool by the name of the front Service."""
    await cluster.install({})
    await cluster.settled()
    kinds = {kind: cluster.pods(kind) for kind in ("node", "router", "store")}
    restarts = sum(pod.restarts for pods in kinds.values() for pod in pods)
    (hook,) = cluster.release.tests()
    test = await cluster.start(hook["metadata"]["name"], hook)
    await cluster.sees(lambda: test.code is not None, "the end of the test")
    return {
        "said": test.log.read_text(),
        "code": test.code,
        "pods": {kind: len(pods) for kind, pods in kinds.items()},
        "restarts": restarts,
        "processes": {kind: await _process(pods[0]) for kind, pods in kinds.items()},
        "users": cluster.root.users,
    }


async def _process(pod: Pod) -> Facts:
    """What the kernel says of a pod's process."""
    container = pod.container()
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{container.pid}/status").read_text().splitlines() if ":\t" in line
    )
    mounts = [line.split(" ") for line in Path(f"/proc/{container.pid}/mountinfo").read_text().splitlines()]
    (*_, root) = [options.split(",") for _, _, _, _, target, options, *_ in mounts if target == "/"]
    environment = Path(f"/proc/{container.pid}/environ").read_bytes().split(b"\0")
    limit = "print(memory.limit(), Path('/tmp/limit').touch())"
    where = f"from pathlib import Path; from framehold.engine import memory; {limit}"
    seen = await container.run(["python", "-c", where], 20)
    wrote = await container.run(["touch", "/srv/there"], 20)
    return {
        "user": status["Uid"].split()[0],
        "group": status["Gid"].split()[0],
        "capabilities": int(status["CapEff"], 16),
        "no_new_privileges": status["NoNewPrivs"],
        "environment": sorted(name.decode().partition("=")[0] for name in environment if name),
        "sees_its_limit": seen == 0 and f"{container.plan.memory} None" in pod.log.read_text(),
        "writes_beside_tmp": wrote == 0,
        "read_only": "ro" in root,
    }


def test_an_install_with_nothing_said_passes_helm_test_and_its_containers_may_do_nothing_else() -> None:
    """The three kinds come up by themselves, in any order, without a restart; each is the user that its spec names,
    has no capabilities, and finds what its spec says in its environment, besides PATH, HOME and HOSTNAME."""
    facts = rehearse(install)
    assert facts["code"] == 0 and "Booked for Ana" in facts["said"], facts["said"]
    assert facts["pods"] == {"node": 3, "router": 2, "store": 1}
    assert facts["restarts"] == 0
    for kind, process in facts["processes"].items():
        assert process["capabilities"] == 0 and process["no_new_privileges"] == "1", kind
        assert process["read_only"] and not process["writes_beside_tmp"], kind
        strange = {name for name in process["environment"] if "FRAMEHOLD" not in name}
        assert strange <= {"PATH", "HOME", "HOSTNAME", "POD_IP", "STORE_PASSWORD"}, kind
        if facts["users"]:
            assert (process["user"], process["group"]) == ("10001", "10001"), kind
    assert facts["processes"]["node"]["sees_its_limit"] and facts["processes"]["router"]["sees_its_limit"]
