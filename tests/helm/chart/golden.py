"""Objects of kinds that clusters learn from others, each as it was read and found right: `golden/NAME.yaml`.

After a change that is meant, `python -m tests.helm.chart.golden` writes them anew; what it changed is to be read like
code.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.helm.chart.render import CHART, Object, render

FOLDER = Path(__file__).parent / "golden"
ALERTS = yaml.safe_load((CHART / "alerts/framehold.yaml").read_text())["groups"]
"""The groups of the file."""
NAMES = [rule["alert"] for group in ALERTS for rule in group["rules"]]
FOLLOWING = ("FrameholdLeaseOrphaned", "FrameholdFailoverSlow", "FrameholdNodeHeartbeatStale")
"""Alerts whose figures follow settings."""

_MONITORED = {
    "metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}},
    "networkPolicy": {"scrapeFrom": [{"namespaceSelector": {}}]},
}
_SCALED = {"enabled": True, "kind": "KEDA", "parkedFrames": 5000, "prometheusUrl": "http://prometheus.monitoring:9090"}
_ROUTED = {
    "enabled": True,
    "parentRefs": [{"name": "public", "namespace": "gateways"}],
    "hostnames": ["mcp.example.com"],
    "annotations": {"owner": "booking"},
}
_RULES = {
    "node": {"settings": {"leaseTtl": 12.5, "tokenTtl": 7200}},
    "metrics": {
        "prometheusRule": {
            "enabled": True,
            "labels": {"release": "prometheus"},
            "runbookUrl": "https://runbooks.example.com/framehold/",
            "disabled": [name for name in NAMES if name not in FOLLOWING],
        }
    },
}
GOLDEN: dict[str, tuple[str, str, dict[str, Any]]] = {
    "servicemonitor-node": ("ServiceMonitor", "fleet-framehold-node", _MONITORED),
    "servicemonitor-router": ("ServiceMonitor", "fleet-framehold-router", _MONITORED),
    "servicemonitor-haproxy": (
        "ServiceMonitor",
        "fleet-framehold-haproxy",
        {"haproxy": {"enabled": True}, **_MONITORED},
    ),
    "podmonitor-router": (
        "PodMonitor",
        "fleet-framehold-router",
        {"metrics": {"podMonitor": {"enabled": True}}, "networkPolicy": _MONITORED["networkPolicy"]},
    ),
    "prometheusrule": ("PrometheusRule", "fleet-framehold", _RULES),
    "scaledobject": ("ScaledObject", "fleet-framehold-node", {"node": {"autoscaling": _SCALED}}),
    "httproute": ("HTTPRoute", "fleet-framehold", {"httpRoute": _ROUTED}),
}
"""Kind, name and values of each."""


def made(name: str) -> Object:
    """The object as the chart makes it now."""
    kind, called, values = GOLDEN[name]
    return render(values).one(kind, called)


def read(name: str) -> Object:
    """The object as it was found right."""
    found: Object = yaml.safe_load((FOLDER / f"{name}.yaml").read_text())
    return found


def write() -> None:
    """Take what the chart makes now for right."""
    for name in GOLDEN:
        (FOLDER / f"{name}.yaml").write_text(yaml.safe_dump(made(name), width=140))


if __name__ == "__main__":
    write()
