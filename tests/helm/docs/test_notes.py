"""NOTES.txt, which Helm prints after each install: its commands name what is there, and what is to be minded. The
golden files of the chart have its text."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.helm.chart.golden import over
from tests.helm.chart.render import CI, VERSION, ci, render
from tests.helm.docs import named
from tests.helm.docs.page import Command

pytestmark = pytest.mark.chart

OWN: dict[str, Any] = {
    "auth": {"existingSecret": "framehold-auth"},
    "store": {"existingSecret": {"name": "framehold-redis"}},
    "node": {"image": {"repository": "registry.example.com/weather"}, "target": "server.py"},
    "router": {"image": {"repository": "registry.example.com/framehold/router"}},
    "networkPolicy": {"scrapeFrom": [{"podSelector": {}}]},
    "test": {"tool": "weather"},
    "metrics": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}},
}
"""A fleet of which nothing is to be minded."""


def told(values: dict[str, Any] | None = None) -> str:
    """The notes of such a fleet with these values over it."""
    return render(over(OWN, values or {})).notes


@pytest.mark.parametrize("kind", CI)
def test_its_commands_name_what_is_there(kind: str) -> None:
    values = ci(kind)
    made = render(values)
    commands = [
        shlex.split(line.partition(" | ")[0].partition(" says ")[0])
        for line in made.notes.splitlines()
        if "kubectl -n" in line
    ]
    own = {name for name in (values.get("auth", {}).get("existingSecret"),) if name}
    assert len(commands) >= 3
    for words in commands:
        assert words[:3] == ["kubectl", "-n", "prod"]
        command = Command(("kubectl", *words[3:]), {})
        assert [gone for gone in named.missing(command, made, own) if gone != "key admin-token" or not own] == []


def test_a_fleet_with_all_of_its_own_has_nothing_to_mind() -> None:
    assert "Mind:" not in told()


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"auth": {"existingSecret": ""}}, "The keys were generated, into the Secret fleet-framehold"),
        ({"auth": {"existingSecret": "", "keys": ["k" * 32]}}, "The keys stand in the release's values"),
        ({"store": {"existingSecret": {"name": ""}}}, "a single Valkey of the chart, for trials"),
        (
            {"store": {"existingSecret": {"name": ""}, "bundled": {"persistence": {"enabled": False}}}},
            "It keeps nothing on a disk",
        ),
        (
            {"store": {"existingSecret": {"name": ""}, "url": "redis://r:6379/0"}},
            "The store's URL stands in the release's values",
        ),
        ({"node": {"image": {"repository": "framehold/node"}, "target": ""}}, "The example is served"),
        ({"node": {"target": "", "source": "mcp = 1\n"}}, "node.source is for trials"),
        (
            {"router": {"image": {"repository": "framehold/router"}}},
            f"each machine of the cluster must have framehold/router:{VERSION}",
        ),
        ({"test": {"tool": ""}}, "helm test makes no call until test.tool names one"),
        ({"node": {"replicas": 1}}, "One node: while it is replaced nobody is served"),
        (
            {
                "settings": {"metrics": False},
                "metrics": {"serviceMonitor": {"enabled": False}, "prometheusRule": {"enabled": False}},
            },
            "Nothing is counted",
        ),
        ({"metrics": {"serviceMonitor": {"enabled": False}}}, "Nothing scrapes it as far as the chart knows"),
        ({"metrics": {"prometheusRule": {"enabled": False}}}, "its alerts are not loaded"),
        ({"networkPolicy": {"enabled": False}}, "whoever is in the cluster's network can reach them"),
        ({"service": {"type": "LoadBalancer"}}, "The Service speaks plain HTTP"),
    ],
)
def test_what_is_to_be_minded(values: dict[str, Any], sentence: str) -> None:
    assert sentence in told(values).partition("Mind:")[2]
    assert sentence not in told()
