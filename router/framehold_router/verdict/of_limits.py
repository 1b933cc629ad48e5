"""The problems of limits that are met, or nearly met."""

from __future__ import annotations

from collections.abc import Iterator

from ..models.problems import ProblemView
from ..telemetry.descriptors import Descriptors
from .seen import NEARLY_FULL, RUNBOOK, Seen, harm, risk

_RAISE_IT = (
    "raise its limit: LimitNOFILE= of a systemd unit, ulimit -n in a shell, or the container runtime's limit (nofile)"
)


def descriptors(seen: Seen) -> Iterator[ProblemView]:
    for node in seen.nodes:
        found, name = Descriptors(node.descriptors, node.descriptors_limit), node.node_id
        yield from _descriptors("descriptors", name, found, node=name)


def _descriptors(kind: str, who: str, found: Descriptors, node: str = "") -> Iterator[ProblemView]:
    used, limit = found
    if used is None or not limit or used < NEARLY_FULL * limit:
        return
    link = f"{RUNBOOK}out-of-descriptors"
    if found.are_spent:
        text = f"{who} has all {limit:,} descriptors open that it may: it can take no connection and make none"
        yield harm(kind, text, _RAISE_IT, link, node)
    else:
        text = (
            f"{who} has {used:,} of {limit:,} descriptors open, {used / limit:.0%}; at the limit it can take no "
            "connection and make none"
        )
        yield risk(kind, text, _RAISE_IT, link, node)
