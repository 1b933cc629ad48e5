"""Who reaches whom, by the NetworkPolicies of an installation.

As https://kubernetes.io/docs/concepts/services-networking/network-policies has it: a pod that no policy chooses is open
to everybody; one that some choose, only to those whom a rule of one of them names. A rule without `from`, or with an
empty one, names everybody. Where a pod goes itself is limited in the same way, by `to`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

from tests.helm.chart.render import Object, Rendered


@dataclass(frozen=True)
class Pod:
    """Somebody who calls, or is called. `space`: the labels of its namespace, None outside the cluster."""

    labels: dict[str, str]
    namespace: str = "prod"
    space: dict[str, str] | None = field(default_factory=dict)
    address: str = "10.1.2.3"


def pods(rendered: Rendered) -> dict[str, Pod]:
    """A pod of each workload, by its component."""
    templates = [made["spec"]["template"] for made in rendered.of("StatefulSet") + rendered.of("Deployment")]
    found = [Pod(template["metadata"]["labels"]) for template in templates]
    return {pod.labels["app.kubernetes.io/component"]: pod for pod in found}


def reaches(rendered: Rendered, caller: Pod, called: Pod, port: int) -> bool:
    """Whether that caller may open a connection to that port: it may go there, and is let in."""
    lets_in, lets_out = _rules(rendered, called, "Ingress"), _rules(rendered, caller, "Egress")
    comes = lets_in is None or any(_opens(rule, "from", caller, called, port) for rule in lets_in)
    return comes and (lets_out is None or any(_opens(rule, "to", called, caller, port) for rule in lets_out))


def _rules(rendered: Rendered, pod: Pod, direction: str) -> list[Object] | None:
    """What policies allow that pod in one direction; None where none of them limits it."""
    choosing = [
        made["spec"]
        for made in rendered.of("NetworkPolicy")
        if made["metadata"]["namespace"] == pod.namespace and chosen(made["spec"]["podSelector"], pod.labels)
        if direction in made["spec"].get("policyTypes", ["Ingress"])
    ]
    return [rule for spec in choosing for rule in spec.get(direction.lower()) or []] if choosing else None


def chosen(selector: Object, labels: dict[str, str]) -> bool:
    """Whether a label selector chooses what has these labels; an empty one chooses everything."""
    exact = selector.get("matchLabels", {}).items() <= labels.items()
    return exact and all(_meets(wanted, labels) for wanted in selector.get("matchExpressions", []))


def _meets(wanted: Object, labels: dict[str, str]) -> bool:
    key, values = wanted["key"], wanted.get("values", [])
    held = {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }
    return held[wanted["operator"]]


def _opens(rule: Object, side: str, other: Pod, own: Pod, port: int) -> bool:
    ports = [each["port"] for each in rule.get("ports", [])]
    peers = rule.get(side, [])
    return (not ports or port in ports) and (not peers or any(_is(peer, other, own) for peer in peers))


def _is(peer: dict[str, Any], other: Pod, own: Pod) -> bool:
    """Whether a rule of a policy of `own` means that other pod."""
    if "ipBlock" in peer:
        inside = [ip_address(other.address) in ip_network(peer["ipBlock"]["cidr"])]
        return all(inside) and not any(
            ip_address(other.address) in ip_network(hole) for hole in peer["ipBlock"].get("except", [])
        )
    if other.space is None:
        return False
    if "namespaceSelector" in peer:
        near = chosen(peer["namespaceSelector"], other.space)
    else:
        near = other.namespace == own.namespace
    return near and chosen(peer.get("podSelector", {}), other.labels)
