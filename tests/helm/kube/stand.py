"""A fleet on trial in a cluster: installed, with clients beside it, and a ledger of what its handlers did."""

from __future__ import annotations

from typing import Any

from tests.fleet.ledger import Ledger
from tests.helm.kube.cluster import NAME, Cluster
from tests.helm.kube.rehearsal import Facts
from tests.helm.kube.values import changed, values
from tests.helm.kube.visitors import Visitors, visitors


class Stand:
    """`values`: those that stand; `clients`: of the front Service."""

    def __init__(self, cluster: Cluster, values: dict[str, Any], clients: Visitors, ledger: Ledger) -> None:
        self.cluster, self.values, self.clients, self.ledger = cluster, values, clients, ledger

    async def change(self, **more: Any) -> None:
        """`helm upgrade` with other values."""
        self.values = changed(self.values, **more)
        await self.cluster.install(self.values)

    def node(self, number: int) -> str:
        """A node's name."""
        return f"{NAME}-node-{number}"

    def judged(self) -> Facts:
        """What must hold at any time, as facts: effects that ran twice, unmarked handlers that were entered twice, the
        logs that tell of a bug, and how often SIGKILL was needed."""
        unmarked = {line.call for line in self.ledger.lines(what="entered") if "unmarked" in line.call}
        logs = self.cluster.logs().items()
        return {
            "repeated": self.ledger.repeated(),
            "entered_again": self.ledger.entered_again(unmarked),
            "effects": len(self.ledger.lines(what="effect")),
            "buggy": [name for name, log in logs if "Traceback" in log or "met a bug" in log],
            "forced": self.cluster.forced,
        }


CLEAN = {"repeated": [], "entered_again": [], "buggy": [], "forced": 0}
"""What is found of it where all went well."""


def clean(facts: Facts) -> Facts:
    """The facts of `judged` that are the same whatever was called."""
    return {name: facts[name] for name in CLEAN}


UNHARMED = {"unborn": 0, "turned_away": 0, "told_lost": 0, "lost": [], "wrong": []}
"""What clients saw where nothing happened to them."""


def harm(seen: Facts) -> Facts:
    """What of a load's clients' story is trouble."""
    return {name: seen[name] for name in UNHARMED}


async def stand(cluster: Cluster, **more: Any) -> Stand:
    """Install a fleet of nodes that keep a ledger, and wait until it is ready. `more`: values by path."""
    folder = cluster.root.folder("ledger", mode=0o777)
    text = values(folder, **more)
    await cluster.install(text)
    await cluster.settled()
    return Stand(cluster, text, await visitors(cluster), Ledger(folder / "ledger"))
