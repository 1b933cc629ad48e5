"""NOTES.txt, which Helm prints after each install: where the fleet is, how its token is found, and what to mind."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.helm.chart.render import CI, VERSION, ci, render
from tests.helm.docs import named
from tests.helm.docs.page import Command, merged

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


def told(*values: dict[str, Any]) -> str:
    """The notes of a fleet with these values, the later ones over the earlier."""
    text: dict[str, Any] = {}
    for each in values:
        text = merged(text, each)
    return render(text).notes


def minded(*values: dict[str, Any]) -> str:
    """What is to be minded."""
    return told(*values).partition("Mind:")[2]


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
    assert "Mind:" not in told(OWN)


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
    assert sentence in minded(OWN, values)
    assert sentence not in told(OWN)


def test_where_clients_come_in_is_said_of_each_way() -> None:
    hosts: dict[str, Any] = {"ingress": {"enabled": True, "hosts": ["a.example.com", "b.example.com"]}}
    assert "http://b.example.com/mcp through the Ingress" in told(OWN, hosts)
    hosts["ingress"]["tls"] = [{"secretName": "cert"}]
    assert "https://a.example.com/mcp through the Ingress" in told(OWN, hosts)
    route = {"httpRoute": {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["c.example.com"]}}
    assert "https://c.example.com/mcp through the HTTPRoute" in told(OWN, route)
    notes = told(OWN, {"service": {"port": 8000}})
    assert "http://fleet-framehold.prod.svc:8000/mcp in the cluster" in notes
    assert "port-forward service/fleet-framehold 8080:8000" in notes


def test_a_key_with_a_dot_is_found_and_no_key_is_said() -> None:
    assert r"jsonpath='{.data.admin\.token}'" in told(OWN, {"auth": {"adminTokenKey": "admin.token"}})
    notes = told(OWN, {"auth": {"adminTokenKey": ""}})
    assert "There is no admin token" in notes and "jsonpath" not in notes and "Nobody may look either" in notes
    notes = told(OWN, {"auth": {"adminTokenKey": "", "readTokenKey": "reads"}})
    assert "It takes the read token:" in notes and ".data.reads}" in notes and "Nobody may look" not in notes
