"""The trial of docs/kubernetes.md, followed on the cluster: a release of its own, in the namespace of the page."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from tests.helm.chart.golden import over
from tests.helm.docs import page, releases
from tests.kube.drills.cluster import Cluster
from tests.kube.drills.fleet import LEASE_TTL, VALUES
from tests.kube.drills.judged import Wanted
from tests.kube.drills.stage import GRACE, Stage

PODS = {"node": 3, "router": 2, "store": 1}
ANSWER = "Elm"
_ROUTER = f"deployment/{page.RELEASE}-router"
_SELF = """
import json, re
said = open("/proc/1/status").read()
of = lambda name: re.search(rf"(?m)^{name}:\\s+(\\S+)", said)[1]
(*_, root) = [line.split()[5].split(",") for line in open("/proc/self/mountinfo") if line.split()[4] == "/"]
try:
    written = bool(open("/there", "w"))
except OSError:
    written = False
ids = {"user": of("Uid"), "group": of("Gid")}
more = {"capabilities": int(of("CapEff"), 16), "may gain more": of("NoNewPrivs") != "1"}
print(json.dumps({**ids, **more, "read-only": "ro" in root, "has written": written}))
"""
"""Prints what the kernel says of the first process of a container."""
CONFINED = {
    "user": "10001",
    "group": "10001",
    "capabilities": 0,
    "may gain more": False,
    "read-only": True,
    "has written": False,
}
_LIMIT = "from framehold.engine import memory; print(memory.limit())"


async def tested(stage: Stage) -> Wanted:
    """A second fleet, in a namespace of its own, as the trial of [On Kubernetes](../../../docs/kubernetes.md) has it:
    `helm install`, `helm upgrade` and `helm test`, which must prove its call, and must fail for a tool that nobody has.
    Each `framehold` command of the page is run in a router's pod. No container is started again, none has more rights
    than its pod says, and each sees its limit of memory. Users of the first fleet answer over 60 s."""
    trial = Cluster(page.NAMESPACE, page.RELEASE)
    answers = asyncio.create_task(stage.crowd.release(60))
    await trial.uninstall()
    try:
        await _followed(trial)
    finally:
        await trial.uninstall()
        # The pod of `helm test` is not part of the release.
        await trial.kubectl("delete", "namespace", page.NAMESPACE, "--ignore-not-found")
    await answers
    return Wanted(wait=LEASE_TTL + GRACE, reported=False)


def installed() -> page.Values:
    """What the page's first installation says, with the images of this cluster and without a disk."""
    return _local("install")


def upgraded() -> page.Values:
    """What the page's first upgrade says: `helm test` gets to know a tool of the server."""
    return _local("upgrade")


def typed() -> list[str]:
    """Each `framehold` command of the page once, as it is typed. What empties a node comes last."""
    text = {str(command) for command in page.commands() if command.words[0] == "framehold"}
    return sorted(text, key=lambda command: ("drain" in command, command))


def _local(verb: str) -> page.Values:
    command = next(command for command in page.commands() if command.words[:2] == ("helm", verb))
    of_processes = ("image", "startupSeconds", "resources")
    parts = {part: {key: VALUES[part][key] for key in of_processes} for part in ("node", "router")}
    made: page.Values = over(releases.values(command), {**parts, "store": VALUES["store"]})
    return made


async def _followed(trial: Cluster) -> None:
    await trial.install(installed())
    await trial.settled()
    await _as_the_pods_say(trial)
    await trial.install(upgraded())
    await trial.settled()
    said = await trial.test()
    proved = said.startswith("it passed") and f"tea goes to {ANSWER}" in said and "proved: " in said
    _wants(proved, f"helm test proved nothing: {said}")
    await trial.install(over(upgraded(), {"test": {"tool": "nap"}}))
    said = await trial.test()
    _wants(
        said.startswith("it failed") and "there is no tool 'nap'" in said,
        f"helm test did not say that there is no such tool: {said}",
    )
    await _commands(trial)


async def _as_the_pods_say(trial: Cluster) -> None:
    pods = (await trial.get("pods"))["items"]
    counts = Counter(pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods)
    restarts = sum(container["restartCount"] for pod in pods for container in pod["status"]["containerStatuses"])
    _wants((counts, restarts) == (PODS, 0), f"{dict(counts)} pods; containers were started again {restarts} times")
    for pod in pods:
        name = pod["metadata"]["name"]
        seen = json.loads(await trial.kubectl("exec", name, "--", "python3", "-c", _SELF))
        _wants(seen == CONFINED, f"{name}: the kernel says {seen}")
        if not name.startswith(f"{page.RELEASE}-store"):
            limit = (await trial.kubectl("exec", name, "--", "python", "-c", _LIMIT)).strip()
            _wants(limit == str(_limit(pod)), f"{name} takes {limit} for its limit of memory")


def _limit(pod: dict[str, Any]) -> int:
    text: str = pod["spec"]["containers"][0]["resources"]["limits"]["memory"]
    return int(text.removesuffix("Mi")) << 20


async def _commands(trial: Cluster) -> None:
    said = {}
    for command in typed():
        words = ("exec", _ROUTER, "--", "sh", "-c", f"echo {ANSWER} | {command}")
        said[command] = await trial.kubectl(*words)
    [call] = [command for command in said if command.startswith("framehold call")]
    _wants(f"tea goes to {ANSWER}" in said[call], f"{call} printed {said[call]}")
    nodes = {f"{page.RELEASE}-node-{number}" for number in range(PODS["node"])}
    _wants(nodes <= set(said["framehold nodes"].split()), f"framehold nodes printed {said['framehold nodes']}")


def _wants(holds: bool, otherwise: str) -> None:
    if not holds:
        raise RuntimeError(otherwise)
