"""Who reaches whom in a fleet's cluster, and how what comes from outside arrives at the front Service."""

from __future__ import annotations

from typing import Any

import pytest

from framehold_fleet.guard.hosts import is_answered
from tests.helm.chart import golden
from tests.helm.chart.reach import Pod, pods, reaches
from tests.helm.chart.render import CI, Object, Rendered, ci, render

pytestmark = pytest.mark.chart

MUST = [
    ("router", "node", 8080),
    ("node", "node", 8080),  # relays
    ("haproxy", "node", 8080),
    ("test", "front", 8080),
    ("test", "router", 8081),  # the API
    ("router", "node", 8081),  # what the API asks of nodes
    ("node", "store", 6379),
    ("router", "store", 6379),
]
"""What a fleet can't do without, whatever is limited."""
MUST_NOT = [
    *((caller, "node", 8080) for caller in ("stranger", "sibling", "outside", "test", "store", "client")),
    *((caller, "store", 6379) for caller in ("stranger", "sibling", "outside", "test", "haproxy", "client", "scraper")),
    *((caller, "haproxy", 8404) for caller in ("stranger", "sibling", "outside", "client", "node")),
    *((caller, "store", 8080) for caller in ("node", "router")),
    *((caller, "node", 6379) for caller in ("node", "router")),
    *((caller, "node", 8081) for caller in ("stranger", "sibling", "outside", "test", "store", "client", "haproxy")),
    *((caller, "router", 8081) for caller in ("stranger", "sibling", "outside", "store", "client", "node", "haproxy")),
]
"""What nobody may, whoever the clients are."""
LIMITED: dict[str, Any] = {
    "scrapeFrom": [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
    ],
    "clientsFrom": [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}},
        {"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.128/25"]}},
    ],
}
INSTALLED: dict[str, dict[str, Any]] = {
    "": {},
    **{kind: ci(kind) for kind in CI},
    "nulled": {"networkPolicy": {"scrapeFrom": None, "clientsFrom": None}},
    "limited": {"networkPolicy": LIMITED},
    "limited behind HAProxy": {"networkPolicy": LIMITED, "haproxy": {"enabled": True}},
}


def _everybody(rendered: Rendered) -> dict[str, Pod]:
    """The fleet's own pods, `front` for those that carry /mcp, and others by who they are."""
    fleet = pods(rendered)
    fleet["front"] = fleet.get("haproxy", fleet["router"])
    own = fleet["router"].labels
    return fleet | {
        "test": Pod(own | {"app.kubernetes.io/component": "test"}),
        "stranger": Pod({"app": "web"}),
        "sibling": Pod(own | {"app.kubernetes.io/instance": "other"}),
        "twin": Pod(own, namespace="staging", space={"kubernetes.io/metadata.name": "staging"}),
        "scraper": Pod({"app": "prometheus"}, "monitoring", {"kubernetes.io/metadata.name": "monitoring"}),
        "client": Pod({"app": "nginx"}, "ingress-nginx", {"kubernetes.io/metadata.name": "ingress-nginx"}),
        "outside": Pod({}, namespace="", space=None, address="198.51.100.7"),
        "near": Pod({}, namespace="", space=None, address="192.0.2.1"),
        "far": Pod({}, namespace="", space=None, address="192.0.2.200"),
    }


def _open(rendered: Rendered, doors: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """Those of the doors that are open, of those whose both ends there are."""
    found = _everybody(rendered)
    return [
        (caller, called, port)
        for caller, called, port in doors
        if caller in found and called in found and reaches(rendered, found[caller], found[called], port)
    ]


@pytest.mark.parametrize("values", INSTALLED.values(), ids=INSTALLED)
def test_a_fleet_reaches_itself_and_others_reach_neither_nodes_nor_store(values: dict[str, Any]) -> None:
    rendered = render(values)
    there = _everybody(rendered)
    assert _open(rendered, MUST) == [door for door in MUST if door[0] in there and door[1] in there]
    assert _open(rendered, [*MUST_NOT, ("twin", "node", 8080), ("twin", "store", 6379)]) == []
    # Where no policy chooses a pod everybody reaches it, so a port that no rule opens tells.
    assert [name for name, pod in pods(rendered).items() if reaches(rendered, Pod({}), pod, 1)] == []


DENIED: Object = {
    "kind": "NetworkPolicy",
    "metadata": {"name": "nobody", "namespace": "prod"},
    "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
}


@pytest.mark.parametrize("port", [8081, 0], ids=["two ports", "one port"])
@pytest.mark.parametrize("haproxy", [False, True], ids=["routers", "HAProxy"])
def test_a_fleet_and_its_test_work_where_nothing_is_allowed_by_default(haproxy: bool, port: int) -> None:
    limited: dict[str, Any] = {"networkPolicy": {**LIMITED, "egress": {"enabled": True}}}
    made = render({**limited, "haproxy": {"enabled": haproxy}, "settings": {"adminPort": port}})
    denied = Rendered((*made.objects, DENIED), "")
    doors = [(caller, called, where if port or where != 8081 else 8080) for caller, called, where in MUST]
    assert _open(denied, doors) == [door for door in doors if haproxy or door[0] != "haproxy"]
    assert not _open(denied, [("test", "node", 8080), ("test", "store", 6379), ("router", "haproxy", 8080)])


OTHERS = ("stranger", "sibling", "twin", "outside", "far")
CLIENTS = [(who, where, 8080) for who in ("client", "near", *OTHERS) for where in ("front", "router")]
SCRAPES = [("scraper", "node", 8081), ("scraper", "router", 8081), ("scraper", "haproxy", 8404)]
NOBODY = {**LIMITED, "scrapeFrom": []}


@pytest.mark.parametrize("haproxy", [False, True], ids=["routers", "HAProxy"])
@pytest.mark.parametrize(
    ("policy", "clients", "scraped"),
    [
        ({}, ("client", "near", *OTHERS), False),
        (LIMITED, ("client", "near"), True),
        (NOBODY, ("client", "near"), False),
    ],
    ids=["without a limit everybody", "those that are named", "an empty list isn't everybody"],
)
def test_clients_and_who_scrapes_are_those_that_are_named(
    policy: dict[str, Any], clients: tuple[str, ...], scraped: bool, haproxy: bool
) -> None:
    rendered = render({"networkPolicy": policy, "haproxy": {"enabled": haproxy}})
    assert _open(rendered, CLIENTS) == [door for door in CLIENTS if door[0] in clients]
    scrapes = [door for door in SCRAPES if haproxy or door[1] != "haproxy"]
    assert _open(rendered, SCRAPES) == (scrapes if scraped else [])
    assert _open(rendered, [("scraper", "node", 8080)]) == [], "who scrapes a node may not call it"


@pytest.mark.parametrize("rule", [{"from": []}, {}, {"ports": [{"port": 8080}]}])
def test_a_rule_that_names_nobody_would_be_seen_to_let_everybody_in(rule: dict[str, Any]) -> None:
    policy = {
        "kind": "NetworkPolicy",
        "metadata": {"name": "a", "namespace": "prod"},
        "spec": {"podSelector": {}, "ingress": [rule]},
    }
    nobody = {**policy, "spec": {"podSelector": {}, "ingress": []}}
    outside = Pod({}, namespace="", space=None)
    assert reaches(Rendered((policy,), ""), outside, Pod({}), 8080)
    assert not reaches(Rendered((nobody,), ""), outside, Pod({}), 8080)


@pytest.mark.parametrize("port", [53, 5353])
def test_whose_ways_are_limited_may_still_ask_for_names(port: int) -> None:
    """OpenShift's DNS listens on 5353 behind its Service, and a network plugin may check the port that is behind it."""
    made = render({"networkPolicy": {"egress": {"enabled": True}}, "haproxy": {"enabled": True}})
    limited = [each["spec"]["egress"] for each in made.of("NetworkPolicy") if "Egress" in each["spec"]["policyTypes"]]
    assert len(limited) >= 3
    for rules in limited:
        open_ = [each for rule in rules if not rule.get("to") for each in rule["ports"]]
        assert all({"protocol": protocol, "port": port} in open_ for protocol in ("UDP", "TCP"))


OPERATORS = ("/metrics", "/api", "/api/v1", "/api/v1/nodes", "/dashboard", "/dashboard/leases", "/admin/node", "/")


def carried(rule: Object, path: str) -> bool:
    """Whether an Ingress rule leads a path anywhere: by whole segments for Prefix, to the letter for Exact."""
    found = [(each["pathType"], each["path"].rstrip("/")) for each in rule["http"]["paths"]]
    return any(path == start or (kind == "Prefix" and path.startswith(f"{start}/")) for kind, start in found)


def test_an_ingress_leads_nobody_to_what_operators_ask() -> None:
    """A controller answers 404 to a path that no rule names. So does a router, whatever leads there."""
    for rule in golden.rendered("routed").one("Ingress", "fleet-framehold")["spec"]["rules"]:
        assert not any(carried(rule, path) for path in OPERATORS)
        assert all(carried(rule, path) for path in ("/mcp", "/.well-known/oauth-protected-resource"))


def test_hosts_of_ingress_and_route_are_answered_to() -> None:
    """By nodes and routers: a name that leads here and that is refused would be a 421 at the first request. So are the
    names of both Services."""
    made, values = golden.rendered("routed"), golden.values("routed")
    for kind, part in (("StatefulSet", "node"), ("Deployment", "router")):
        [container] = made.one(kind, f"fleet-framehold-{part}")["spec"]["template"]["spec"]["containers"]
        hosts = next(each["value"] for each in container["env"] if each["name"] == "FRAMEHOLD_ALLOWED_HOSTS").split(",")
        assert {*values["ingress"]["hosts"], *values["httpRoute"]["hostnames"]} <= set(hosts)
        for service in ("fleet-framehold", "fleet-framehold-router"):
            made.one("Service", service)
            names = (service, f"{service}.prod", f"{service}.prod.svc", f"{service}.prod.svc.cluster.local")
            assert all(is_answered(f"{name}:8081", hosts) for name in names)
        assert not is_answered("evil.example", hosts)
