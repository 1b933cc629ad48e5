"""Whether pods are spread over the machines of a cluster as evenly as the chart asks for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

FRONT = ("router", "haproxy")
"""Parts whose pods are spread after each roll and each change of their number."""
NODE = "node"
"""A part whose pods are spread where they were all renewed or some were added: what is taken away has the highest
numbers, wherever it stands."""

Object = Mapping[str, Any]


def crowded(pods: Sequence[Object], machines: Sequence[Object], parts: Collection[str]) -> list[str]:
    """The parts of which one machine has at least two pods more than another one, in words. Pods that end and machines
    that take no pod don't count."""
    names = [machine["metadata"]["name"] for machine in machines if not machine["spec"].get("unschedulable")]
    found = []
    for part in parts:
        where = Counter(pod["spec"]["nodeName"] for pod in pods if _is_of(pod, part))
        counts = {name: where[name] for name in names}
        if max(counts.values()) - min(counts.values()) > 1:
            found.append(f"{part} is not spread: {', '.join(f'{name} has {count}' for name, count in counts.items())}")
    return found


def living(pods: Sequence[Object], part: str) -> int:
    """How many pods a part has, without those that end."""
    return sum(_is_of(pod, part) for pod in pods)


def wanted(controller: Object) -> tuple[str, int]:
    """The part of a StatefulSet or a Deployment, and how many pods it shall have."""
    return controller["metadata"]["labels"]["app.kubernetes.io/component"], controller["spec"]["replicas"]


def _is_of(pod: Object, part: str) -> bool:
    metadata = pod["metadata"]
    return "deletionTimestamp" not in metadata and metadata["labels"]["app.kubernetes.io/component"] == part
