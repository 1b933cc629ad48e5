"""`python -m tests.helm.kube MODULE:SCENARIO`: plays one scenario on a cluster of its own; prints its facts.

It first begins anew inside namespaces: network, mounts, processes and host name are this run's alone. Whatever it
makes there ends with it, however it ends: the kernel kills all processes of a namespace whose first process is gone.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys

import uvloop

from tests.helm.kube.cluster import Cluster
from tests.helm.kube.root import Root

_APART = ["--net", "--mount", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc", "--propagation", "private"]
_INSIDE = "--inside"


def main() -> None:
    """Go inside, or play."""
    if sys.argv[1] != _INSIDE:
        if os.geteuid() != 0:
            sys.exit("only root may make namespaces, mounts and addresses; nothing was started; run this test as root")
        command = ["unshare", *_APART, sys.executable, "-m", "tests.helm.kube", _INSIDE, *sys.argv[1:]]
        os.execvp(command[0], command)
    module, _, name = sys.argv[2].partition(":")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    print(json.dumps(uvloop.run(_play(module, name))), flush=True)


async def _play(module: str, name: str) -> dict[str, object]:
    scenario = getattr(importlib.import_module(module), name)
    cluster = Cluster(Root(), asyncio.get_running_loop().time)
    await cluster.open()
    try:
        facts: dict[str, object] = await scenario(cluster)
    except BaseException:
        print(cluster.report(), file=sys.stderr, flush=True)
        raise
    finally:
        cluster.close()
    return {**facts, "log": cluster.report()}


if __name__ == "__main__":
    main()
