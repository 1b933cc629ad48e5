"""What a platform team sets: who pods are, how they are replaced, probed and reached, and where they may go."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framehold_fleet.config import read
from framehold_fleet.identity.router_keys import RouterKey
from framehold_router.config import RouterSettings
from tests.helm.chart.render import Object, Rendered, ci, render, secrets_of
from tests.helm.chart.schemas import CUSTOM, RELEASES, faults
from tests.node.nodes import KEY

pytestmark = pytest.mark.chart

PARTS = {"node": "StatefulSet", "router": "Deployment", "haproxy": "Deployment", "store": "StatefulSet"}
RUN_AS = {"runAsNonRoot": True, "runAsUser": 10001, "runAsGroup": 10001, "fsGroup": 10001}


def workload(made: Rendered, part: str) -> Object:
    """The spec of a workload."""
    spec: Object = made.one(PARTS[part], f"fleet-framehold-{part}")["spec"]
    return spec


def pod(made: Rendered, part: str) -> Object:
    spec: Object = workload(made, part)["template"]["spec"]
    return spec


def containers(made: Rendered) -> list[Object]:
    """Every container that the chart starts, that of `helm test` too."""
    pods = [each["spec"]["template"]["spec"] for each in made.of("StatefulSet") + made.of("Deployment")]
    pods += [each["spec"] for each in made.of("Pod")]
    return [one for each in pods for one in [*each["containers"], *each.get("initContainers", [])]]


def whole(part: str, **values: Any) -> dict[str, Any]:
    """Values of one part; those of the store are a level deeper."""
    return {"store": {"bundled": values}} if part == "store" else {part: values}


@pytest.fixture(scope="module")
def usual() -> Rendered:
    return render({"haproxy": {"enabled": True}})


def test_openshift_may_choose_the_users_of_every_pod() -> None:
    made = render({"haproxy": {"enabled": True}, **ci("openshift")})
    pods = [pod(made, part) for part in PARTS] + [each["spec"] for each in made.of("Pod")]
    assert [each["securityContext"] for each in pods] == [
        {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    ] * 5


@pytest.mark.parametrize("part", PARTS)
def test_a_part_has_security_contexts_of_its_own_over_those_of_all(part: str, usual: Rendered) -> None:
    values = whole(part, podSecurityContext={"runAsUser": 7, "fsGroup": None}, securityContext={"privileged": False})
    made = render({**values, "haproxy": {"enabled": True, **values.get("haproxy", {})}})
    assert pod(usual, part)["securityContext"].items() >= RUN_AS.items()
    own = pod(made, part)["securityContext"]
    assert own["runAsUser"] == 7 and "fsGroup" not in own and own["runAsGroup"] == 10001
    (container, *_) = pod(made, part)["containers"]
    assert container["securityContext"]["privileged"] is False
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    others = [pod(made, other)["securityContext"]["runAsUser"] for other in PARTS if other != part]
    assert others == [10001] * 3


def test_the_security_context_of_all_containers_is_one_value() -> None:
    made = render({"haproxy": {"enabled": True}, "securityContext": {"readOnlyRootFilesystem": False}})
    found = containers(made)
    assert len(found) == 7
    assert {each["securityContext"]["readOnlyRootFilesystem"] for each in found} == {False}
    assert all(each["securityContext"]["capabilities"] == {"drop": ["ALL"]} for each in found)


SCHEDULED: dict[str, Any] = {
    "schedulerName": "packer",
    "runtimeClassName": "gvisor",
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["10.0.0.10"], "options": [{"name": "ndots", "value": "1"}]},
    "hostAliases": [{"ip": "10.0.0.11", "hostnames": ["redis"]}],
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_scheduled_run_and_looks_up_names_as_it_is_told(part: str, usual: Rendered) -> None:
    values = whole(part, **SCHEDULED)
    made = render({**values, "haproxy": {"enabled": True, **values.get("haproxy", {})}})
    assert pod(made, part).items() >= SCHEDULED.items()
    assert not pod(usual, part).keys() & SCHEDULED.keys()


def test_one_node_is_changed_before_the_others() -> None:
    """A canary: `partition` leaves the nodes below it as they are."""
    made = render({"node": {"updateStrategy": {"rollingUpdate": {"partition": 2}}, "minReadySeconds": 30}})
    spec = workload(made, "node")
    assert spec["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    assert spec["minReadySeconds"] == 30
    assert "minReadySeconds" not in workload(made, "router")


@pytest.mark.parametrize("part", ["router", "haproxy"])
def test_a_deployment_surges_unless_it_is_told_otherwise(part: str, usual: Rendered) -> None:
    values: dict[str, Any] = {"haproxy": {"enabled": True}}
    values[part] = {**values.get(part, {}), "updateStrategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}}
    assert workload(usual, part)["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert workload(render(values), part)["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize("part", ["node", "router", "haproxy"])
def test_fields_of_probes_are_changed_one_by_one(part: str, usual: Rendered) -> None:
    changed = {"readinessProbe": {"timeoutSeconds": 4}, "livenessProbe": {"terminationGracePeriodSeconds": None}}
    (before,) = pod(usual, part)["containers"]
    values: dict[str, Any] = {"haproxy": {"enabled": True}}
    values[part] = {**values.get(part, {}), **changed}
    (after,) = pod(render(values), part)["containers"]
    assert after["readinessProbe"] == {**before["readinessProbe"], "timeoutSeconds": 4}
    assert after["livenessProbe"].keys() == before["livenessProbe"].keys() - {"terminationGracePeriodSeconds"}
    assert after["startupProbe"] == before["startupProbe"]


def test_hooks_are_added_and_a_pre_stop_of_ones_own_counts() -> None:
    hook = {"exec": {"command": ["true"]}}
    made = render({"node": {"lifecycle": {"postStart": hook}}, "router": {"lifecycle": {"postStart": hook}}})
    assert pod(made, "node")["containers"][0]["lifecycle"] == {"postStart": hook}
    assert pod(made, "router")["containers"][0]["lifecycle"] == {
        "postStart": hook,
        "preStop": {"exec": {"command": ["sleep", "5"]}},
    }
    own = render({"router": {"lifecycle": {"preStop": hook}}})
    assert pod(own, "router")["containers"][0]["lifecycle"] == {"preStop": hook}


def test_a_budget_says_what_becomes_of_pods_that_are_not_ready() -> None:
    made = render({"node": {"pdb": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}})
    budgets = {each["metadata"]["name"]: each["spec"] for each in made.of("PodDisruptionBudget")}
    assert budgets["fleet-framehold-node"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
    assert "unhealthyPodEvictionPolicy" not in budgets["fleet-framehold-router"]


def test_the_front_service_has_its_class_and_its_policies() -> None:
    text = {
        "loadBalancerClass": "example.com/metal",
        "externalTrafficPolicy": "Local",
        "internalTrafficPolicy": "Local",
    }
    spec = render({"service": {"type": "LoadBalancer", **text}}).one("Service", "fleet-framehold")["spec"]
    assert spec.items() >= text.items()
    assert not render().one("Service", "fleet-framehold")["spec"].keys() & text.keys()


def test_admins_have_a_port_that_no_way_of_clients_leads_to(usual: Rendered) -> None:
    """The processes are told it, the front Service leads past it, and the routers' own Service leads to it."""
    for part in ("node", "router"):
        (container,) = pod(usual, part)["containers"]
        assert {port["name"]: port["containerPort"] for port in container["ports"]} == {"http": 8080, "admin": 8081}
        result = {each["name"]: each.get("value") for each in container["env"]}
        assert result["FRAMEHOLD_ADMIN_PORT"] == "8081"
        assert {container[f"{probe}Probe"]["httpGet"]["port"] for probe in ("startup", "readiness", "liveness")} == {
            "admin"
        }
    targets = {each["metadata"]["name"]: each["spec"]["ports"][0]["targetPort"] for each in usual.of("Service")}
    assert targets["fleet-framehold"] == "http" and targets["fleet-framehold-router"] == "admin"


def test_one_port_may_serve_all() -> None:
    made = render({"settings": {"adminPort": 0}})
    for part in ("node", "router"):
        (container,) = pod(made, part)["containers"]
        assert container["ports"] == [{"name": "http", "containerPort": 8080}]
        assert container["readinessProbe"]["httpGet"]["port"] == "http"
    assert made.one("Service", "fleet-framehold-router")["spec"]["ports"][0]["targetPort"] == "http"
    assert [each["name"] for each in made.one("Service", "fleet-framehold-node")["spec"]["ports"]] == ["http"]


def carried(rule: Object, path: str) -> bool:
    """Whether an Ingress rule leads a path anywhere: by whole segments for Prefix, to the letter for Exact."""
    found = [(each["pathType"], each["path"].rstrip("/")) for each in rule["http"]["paths"]]
    return any(path == start or (kind == "Prefix" and path.startswith(f"{start}/")) for kind, start in found)


OPERATORS = ("/metrics", "/api", "/api/v1", "/api/v1/nodes", "/dashboard", "/dashboard/leases", "/admin/node", "/")


def test_an_ingress_leads_nobody_to_what_operators_ask() -> None:
    """A controller answers 404 to a path that no rule names. So does a router, whatever leads there."""
    made = render({"ingress": {"enabled": True, "hosts": ["a.example.com"]}})
    (rule,) = made.one("Ingress", "fleet-framehold")["spec"]["rules"]
    assert not any(carried(rule, path) for path in OPERATORS)
    assert all(carried(rule, path) for path in ("/mcp", "/.well-known/oauth-protected-resource"))


PATHS = [
    {"path": "/mcp"},
    {"path": "/oauth", "pathType": "Exact"},
    {"path": "/dashboard", "to": "admin"},
    {"path": "/api/v1", "to": "admin"},
]


def test_an_ingress_carries_more_where_values_say_so() -> None:
    """The dashboard and the API come from the routers' own Service."""
    made = render({"ingress": {"enabled": True, "hosts": ["a.example.com"], "paths": PATHS}})
    (rule,) = made.one("Ingress", "fleet-framehold")["spec"]["rules"]
    found = [
        (path["path"], path["pathType"], path["backend"]["service"]["name"], path["backend"]["service"]["port"])
        for path in rule["http"]["paths"]
    ]
    http = {"name": "http"}
    assert found == [
        ("/mcp", "Prefix", "fleet-framehold", http),
        ("/oauth", "Exact", "fleet-framehold", http),
        ("/dashboard", "Prefix", "fleet-framehold-router", http),
        ("/api/v1", "Prefix", "fleet-framehold-router", http),
    ]


def test_a_route_carries_more_where_values_say_so() -> None:
    route = {"enabled": True, "parentRefs": [{"name": "public"}], "hostnames": ["a.example.com"], "paths": PATHS}
    made = render({"httpRoute": route, "service": {"port": 8000}})
    clients, admin = made.one("HTTPRoute", "fleet-framehold")["spec"]["rules"]
    assert [each["path"] for each in clients["matches"]] == [
        {"type": "PathPrefix", "value": "/mcp"},
        {"type": "Exact", "value": "/oauth"},
    ]
    assert clients["backendRefs"] == [{"name": "fleet-framehold", "port": 8000}]
    assert [each["path"]["value"] for each in admin["matches"]] == ["/dashboard", "/api/v1"]
    assert admin["backendRefs"] == [{"name": "fleet-framehold-router", "port": 80}]
    assert clients["timeouts"] == admin["timeouts"] == {"request": "0s"}


_READ = {
    "node": {"FRAMEHOLD_KEYS", "FRAMEHOLD_ADMIN_TOKEN", "FRAMEHOLD_STORE_URL"},
    "router": {"FRAMEHOLD_ADMIN_TOKEN", "FRAMEHOLD_STORE_URL"},
    "haproxy": set[str](),
    "test": {"FRAMEHOLD_ADMIN_TOKEN"},
}
"""The secrets that the container of each part reads, and no more."""
_DERIVING = {"router", "haproxy"}
"""The parts whose first container reads the keys, and leaves what it derives."""


def reading(values: dict[str, Any]) -> dict[str, Any]:
    """The pods of those parts, with HAProxy in front."""
    made = render({"haproxy": {"enabled": True}, **values})
    (test,) = made.of("Pod")
    return {"test": test["spec"], **{part: pod(made, part) for part in ("node", "router", "haproxy")}}


def by_container(spec: dict[str, Any]) -> dict[str, set[str]]:
    """The secrets that each container of a pod is told, by its name."""
    return {
        each["name"]: set(secrets_of({**spec, "containers": [each], "initContainers": []}))
        for each in [*spec.get("initContainers", []), *spec["containers"]]
    }


def read_by(part: str) -> list[set[str]]:
    """What the containers of a part read, in their order."""
    return [*([{"FRAMEHOLD_KEYS"}] if part in _DERIVING else []), _READ[part]]


def test_secrets_are_files() -> None:
    """No variable of any container refers to a Secret. Each file is named as its setting. Only its reader has it."""
    for part, spec in reading({}).items():
        assert list(by_container(spec).values()) == read_by(part), part
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            variables = {each["name"]: each for each in container.get("env", [])}
            assert not any("secretKeyRef" in str(each) for each in variables.values())
            mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
            found = {name for name in ("keys", "secrets", "derived") if mounts.get(name, {}).get("readOnly")}
            folders = [mounts[name]["mountPath"] for name in sorted(found, reverse=True)]
            said = variables.get("FRAMEHOLD_SECRETS_DIR", {}).get("value", "/run/framehold")
            assert said == ":".join(folders), "HAProxy is told by a file of its own"


def test_secrets_are_variables_where_that_is_wanted() -> None:
    """But for what is derived, which no Secret has."""
    for part, spec in reading({"auth": {"asFiles": False}}).items():
        assert list(by_container(spec).values()) == read_by(part), part
        assert "projected" not in str(spec)
        assert ("FRAMEHOLD_SECRETS_DIR" in str(spec)) == (part == "router")


@pytest.mark.parametrize("as_files", [True, False], ids=["files", "variables"])
@pytest.mark.parametrize("part", sorted(_DERIVING))
def test_who_is_reached_by_clients_never_has_the_keys(part: str, as_files: bool) -> None:
    """Neither by a variable nor by a file: what it gets is in a volume in memory that its first container fills."""
    spec = reading({"auth": {"asFiles": as_files, "adminTokenKey": "", "keysKey": "the-keys"}})[part]
    first, others = spec["initContainers"][0], [*spec["initContainers"][1:], *spec["containers"]]
    held = [each["name"] for each in spec["volumes"] if "the-keys" in str(each)]
    assert held == (["keys"] if as_files else [])
    for container in others:
        assert "the-keys" not in str(container)
        assert not {"keys"} & {mount["name"] for mount in container["volumeMounts"]}
    assert "the-keys" in str(first) or "keys" in {mount["name"] for mount in first["volumeMounts"]}
    (derived,) = (each for each in spec["volumes"] if each["name"] == "derived")
    assert derived["emptyDir"]["medium"] == "Memory"
    for volume in spec["volumes"]:
        for source in volume.get("projected", {}).get("sources", []):
            assert source["secret"]["items"], "without items it brings all that the Secret has"


@pytest.mark.parametrize("as_files", [True, False], ids=["files", "variables"])
def test_the_read_token_is_read_by_routers_and_by_the_test(as_files: bool) -> None:
    """Which then needs the admin token no longer."""
    read = {**_READ, "router": {*_READ["router"], "FRAMEHOLD_READ_TOKEN"}, "test": {"FRAMEHOLD_READ_TOKEN"}}
    for part, spec in reading({"auth": {"asFiles": as_files, "readTokenKey": "reads"}}).items():
        assert by_container(spec)[part if part != "test" else "call"] == read[part]


def test_without_an_admin_token_nobody_looks_for_one() -> None:
    """A folder that is named and not there would keep a process from starting."""
    for part, spec in reading({"auth": {"adminTokenKey": ""}}).items():
        assert by_container(spec)[part if part != "test" else "call"] == _READ[part] - {"FRAMEHOLD_ADMIN_TOKEN"}
        assert ("FRAMEHOLD_SECRETS_DIR" in str(spec)) == ("projected" in str(spec)) == (part != "test")


def test_a_router_starts_with_what_its_first_container_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its pod runs it, but for the folders: the derived keys are all that it has of the fleet's."""
    spec = reading({})["router"]
    first, own = spec["initContainers"][0], spec["containers"][0]
    places = {"/etc/framehold/secrets": tmp_path / "mounted", "/run/framehold": tmp_path / "derived"}
    for place in places.values():
        place.mkdir()
    (places["/etc/framehold/secrets"] / "FRAMEHOLD_KEYS").write_text(KEY)
    (script,) = (word for word in first["command"] if "framehold" in word)
    folders = own["env"][0]["value"]
    for name, place in places.items():
        script, folders = script.replace(name, str(place)), folders.replace(name, str(place))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "FRAMEHOLD_SECRETS_DIR": str(places["/etc/framehold/secrets"])}
    subprocess.run(["sh", "-ec", script], env=environment, check=True, timeout=60)
    (places["/etc/framehold/secrets"] / "FRAMEHOLD_KEYS").unlink()
    monkeypatch.setenv("FRAMEHOLD_SECRETS_DIR", folders)
    settings = read(RouterSettings)
    assert settings.known_keys() == (RouterKey.of(KEY.encode()),) and settings.keys == ()


def test_ways_out_are_limited_to_the_fleet_the_store_and_what_is_listed() -> None:
    rules: dict[str, list[dict[str, Any]]] = {
        "store": [{"to": [{"ipBlock": {"cidr": "10.20.0.0/24"}}], "ports": [{"protocol": "TCP", "port": 6379}]}],
        "node": [{"to": [{"ipBlock": {"cidr": "10.30.0.0/24"}}]}],
    }
    values = {"networkPolicy": {"egress": {"enabled": True, **rules}}, "haproxy": {"enabled": True}}
    made = render({**values, "store": {"existingSecret": {"name": "redis"}}})
    exits = {each["metadata"]["name"].rpartition("-")[2]: each["spec"] for each in made.of("NetworkPolicy")}
    assert exits.keys() == {"node", "router", "haproxy"}
    assert all(spec["policyTypes"] == ["Ingress", "Egress"] for spec in exits.values())
    names = {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]}
    clients, admin = ([{"protocol": "TCP", "port": port}] for port in (8080, 8081))
    listed = {"node": [*rules["store"], *rules["node"]], "router": rules["store"], "haproxy": []}
    for name, spec in exits.items():
        dns, *others = spec["egress"]
        assert dns == names and [rule for rule in others if "podSelector" not in rule["to"][0]] == listed[name]
        nodes = [rule for rule in others if "podSelector" in rule["to"][0]]
        assert [rule["ports"] for rule in nodes] == ([clients, admin] if name == "router" else [clients])
        for rule in nodes:
            (peer,) = rule["to"]
            assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "node"
    bundled = render({"networkPolicy": {"egress": {"enabled": True}}}).one("NetworkPolicy", "fleet-framehold-router")
    assert bundled["spec"]["egress"][-1]["ports"] == [{"protocol": "TCP", "port": 6379}]
    assert all(each["spec"]["policyTypes"] == ["Ingress"] for each in render().of("NetworkPolicy"))


@pytest.mark.parametrize("haproxy", [False, True])
def test_pods_are_scraped_by_their_admin_port(haproxy: bool) -> None:
    """Jobs are called as with ServiceMonitors: the alerts know them by these names."""
    near = {"networkPolicy": {"scrapeFrom": [{"podSelector": {}}]}, "haproxy": {"enabled": haproxy}}
    made = render({"metrics": {"podMonitor": {"enabled": True, "labels": {"a": "b"}, "interval": "20s"}}, **near})
    ports = {}
    for monitor in made.of("PodMonitor"):
        (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
        job = next(each["replacement"] for each in endpoint["relabelings"] if each["targetLabel"] == "job")
        assert job == monitor["metadata"]["name"] and monitor["metadata"]["labels"]["a"] == "b"
        assert (endpoint["interval"], endpoint["path"]) == ("20s", "/metrics")
        ports[job.rpartition("-")[2]] = endpoint["port"]
    assert ports == {"node": "admin", "router": "admin", **({"haproxy": "metrics"} if haproxy else {})}


@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]])
def test_kubernetes_takes_all_of_it(release: str) -> None:
    work: dict[str, Any] = {
        **SCHEDULED,
        "podSecurityContext": {"runAsUser": 7},
        "securityContext": {"privileged": False},
        "updateStrategy": {"type": "RollingUpdate"},
        "minReadySeconds": 5,
        "readinessProbe": {"timeoutSeconds": 4},
        "lifecycle": {"postStart": {"exec": {"command": ["true"]}}},
        "pdb": {"unhealthyPodEvictionPolicy": "IfHealthyBudget"},
    }
    store = {name: work[name] for name in (*SCHEDULED, "podSecurityContext", "securityContext")}
    policies = {"externalTrafficPolicy": "Local", "internalTrafficPolicy": "Cluster", "loadBalancerClass": "a.b/c"}
    values = {
        "node": work,
        "router": work,
        "haproxy": {"enabled": True, **work},
        "store": {"bundled": store},
        "auth": {"asFiles": False},
        "service": {"type": "LoadBalancer", **policies},
        "networkPolicy": {"egress": {"enabled": True}},
        "ingress": {"enabled": True, "hosts": ["a.example.com"], "paths": PATHS},
    }
    made = [each for each in render(values).objects if each["kind"] not in CUSTOM]
    assert [fault for each in made for fault in faults(each, release)] == []
