"""What a pod is told: who it is, what it serves, how long it may take to end, and what it may do on its machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from framehold.config import Settings
from framehold_router.config import RouterSettings
from framehold_store.keys import Keys
from tests.helm.chart.render import CHART, CI, VERSION, Object, Rendered, ci, render

pytestmark = pytest.mark.chart

NODE, ROUTER = ("StatefulSet", "fleet-framehold-node"), ("Deployment", "fleet-framehold-router")
HAPROXY = ("Deployment", "fleet-framehold-haproxy")


def _pod(rendered: Rendered, kind: str, name: str) -> Object:
    spec: Object = rendered.one(kind, name)["spec"]["template"]["spec"]
    return spec


def _env(rendered: Rendered, kind: str, name: str) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in _pod(rendered, kind, name)["containers"][0]["env"]}


def _read(kind: type[Any], env: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings of a process that is started with that environment, of what the chart itself says; without the
    files of its pod."""
    for name, value in env.items():
        if value is not None and "$(" not in value and name != "FRAMEHOLD_SECRETS_DIR":
            monkeypatch.setenv(name, value)
    return kind()


def test_without_values_a_process_has_the_settings_that_it_has_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered = render()
    differ = {"namespace", "log_format", "allowed_hosts", "allowed_origins", "node_id", "admin_port"}
    for kind, where in ((Settings, NODE), (RouterSettings, ROUTER)):
        result = _read(kind, _env(rendered, *where), monkeypatch).model_dump(exclude=differ)
        with monkeypatch.context() as without:
            for name in _env(rendered, *where):
                without.delenv(name, raising=False)
            assert result == kind().model_dump(exclude=differ)


def test_numbers_and_lists_arrive_as_they_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    node = {"leaseTtl": 2.5, "maxParked": 1000000, "codeModules": ["acme.common", "-acme.models"]}
    text = {"settings": {"maxBody": 16777216}, "node": {"settings": node}}
    result = _read(Settings, _env(render(text), *NODE), monkeypatch)
    assert (result.max_body, result.lease_ttl, result.max_parked) == (16777216, 2.5, 1_000_000)
    assert tuple(result.code_modules) == ("acme.common", "-acme.models")


def test_a_fleet_has_its_own_corner_of_the_store() -> None:
    names = [
        _env(render(name=name, namespace=space), kind, f"{name}-framehold-{part}")["FRAMEHOLD_NAMESPACE"]
        for name, space in (("a", "prod"), ("b", "prod"), ("a", "test"), ("c", "x" * 63))
        for kind, part in (("StatefulSet", "node"), ("Deployment", "router"))
    ]
    assert len(set(names)) == 4 and all(len(name) <= 63 for name in names)


def test_no_two_fleets_share_a_corner_whatever_their_names_are() -> None:
    """As `prod-a` and `framehold` would with `prod` and `a-framehold`, if a hyphen were between them."""
    one, other = render(name="framehold", namespace="prod-a"), render(name="a", namespace="prod")
    corners = [
        _env(made, "Deployment", name)["FRAMEHOLD_NAMESPACE"]
        for made, name in ((one, "framehold-router"), (other, "a-framehold-router"))
    ]
    assert corners == ["prod-a.framehold", "prod.a-framehold"]
    assert all(Keys(corner) for corner in corners), "a process would not start with it"


def test_a_node_is_called_as_its_pod_and_reached_at_its_address() -> None:
    env = {each["name"]: each for each in _pod(render(), *NODE)["containers"][0]["env"]}
    assert env["FRAMEHOLD_NODE_ID"]["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    assert env["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert env["FRAMEHOLD_ADVERTISE_URL"]["value"] == "http://$(POD_IP):8080"
    assert list(env).index("POD_IP") < list(env).index("FRAMEHOLD_ADVERTISE_URL"), "it would not be expanded"
    assert "FRAMEHOLD_MEMORY_LIMIT" not in env, "its cgroup tells the limit"


def test_ipv6_is_listened_on_and_told() -> None:
    rendered = render({"ipFamily": "IPv6"})
    assert _env(rendered, *NODE)["FRAMEHOLD_ADVERTISE_URL"] == "http://[$(POD_IP)]:8080"
    for where in (NODE, ROUTER):
        command = _pod(rendered, *where)["containers"][0]["command"]
        assert command[2:4] == ["--host", "::"]


@pytest.mark.parametrize(
    ("values", "target"),
    [
        ({}, "framehold.examples.booking"),
        ({"target": "server.py", "image": {"repository": "registry.example/booking"}}, "server.py"),
        ({"source": "mcp = ...\n"}, "/etc/framehold/source/server.py"),
    ],
)
def test_what_is_served(values: dict[str, Any], target: str) -> None:
    pod = _pod(render({"node": values}), *NODE)
    assert pod["containers"][0]["command"] == ["framehold", "node", "--host", "0.0.0.0", "--port", "8080", target]
    assert pod["containers"][0]["workingDir"] == "/srv"


def test_a_changed_source_rolls_the_nodes() -> None:
    auth = {"keys": ["a" * 64], "adminToken": "b" * 16}
    made = [render({"auth": auth, "node": {"source": text}}) for text in ("one = 1\n", "two = 2\n")]
    assert made[0].one("ConfigMap", "fleet-framehold-source")["data"] == {"server.py": "one = 1\n"}
    sums = [each.one(*NODE)["spec"]["template"]["metadata"]["annotations"]["checksum/source"] for each in made]
    assert sums[0] != sums[1]


@pytest.mark.parametrize(
    "text",
    ["  # indented\nmcp = 1\n", "\n\n    x\nmcp = 1", "mcp = 1\r\n", "\tx\n\n\n", "\ufeffmcp = '{{ é }} \u2028'"],
)
def test_a_source_arrives_as_it_was_written(text: str) -> None:
    assert render({"node": {"source": text}}).one("ConfigMap", "fleet-framehold-source")["data"] == {"server.py": text}


def test_a_new_version_of_the_chart_alone_replaces_no_pod(tmp_path: Path) -> None:
    """A node serves an image of its user's, and the store one of its own: what is in them has not changed."""
    newer = shutil.copytree(CHART, tmp_path / "framehold")
    about = newer / "Chart.yaml"
    about.write_text(about.read_text().replace(f"ersion: {VERSION}", "ersion: 7.8.9"))
    image = {"repository": "acme/weather", "tag": "1"}
    values = {"auth": {"existingSecret": "own"}, "node": {"image": image, "target": "server.py"}}
    now, then = render(values), render(values, chart=newer)
    assert then.one(*NODE)["metadata"]["labels"]["helm.sh/chart"] == "framehold-7.8.9"
    labels = [
        [made.one("StatefulSet", f"fleet-framehold-{part}")["spec"]["template"]["metadata"]["labels"] for made in both]
        for part in ("node", "store")
        for both in [(now, then)]
    ]
    assert [one == other for one, other in labels] == [True, True]
    assert _pod(now, *NODE) == _pod(then, *NODE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({}, ["kubernetes.io/hostname"]),
        ({"topologySpreadConstraints": None}, ["kubernetes.io/hostname"]),
        ({"topologySpreadConstraints": []}, []),
    ],
    ids=["unsaid", "null", "none"],
)
def test_what_there_are_several_of_is_spread_unless_told_otherwise(text: dict[str, Any], expected: list[str]) -> None:
    rendered = render(dict.fromkeys(("node", "router", "haproxy"), text) | {"haproxy": {"enabled": True, **text}})
    for made in _workloads(rendered):
        spread = made["spec"]["template"]["spec"].get("topologySpreadConstraints", [])
        assert [each["topologyKey"] for each in spread] == (expected if made["spec"]["replicas"] > 1 else [])
        own = made["spec"]["template"]["metadata"]["labels"]
        assert all(_selects(each["labelSelector"]["matchLabels"], own) for each in spread)


def test_pods_of_another_revision_count_for_the_spread_of_nodes_alone() -> None:
    """A Deployment starts new pods beside the old ones: if these counted, all new ones would go to the machine that had
    none. A StatefulSet deletes a pod before it makes its successor; its pods have no such label."""
    rendered = render({"haproxy": {"enabled": True}})
    found = {
        kind: _pod(rendered, *where)["topologySpreadConstraints"][0].get("matchLabelKeys")
        for kind, where in (("node", NODE), ("router", ROUTER), ("haproxy", HAPROXY))
    }
    assert found == {"node": None, "router": ["pod-template-hash"], "haproxy": ["pod-template-hash"]}


@pytest.mark.parametrize("affinity", [{}, {"podAntiAffinity": {}}], ids=["unsaid", "of its own"])
def test_a_zone_without_another_one_is_preferred_unless_told_otherwise(affinity: dict[str, Any]) -> None:
    """Not by a spread constraint: the scheduler leaves out machines that lack the label of one of them, so that the
    constraint on machines would be lost where there are no zones."""
    text = {"affinity": affinity}
    rendered = render(dict.fromkeys(("node", "router"), text) | {"haproxy": {"enabled": True, **text}})
    for made in (made for made in _workloads(rendered) if made["spec"]["replicas"] > 1):
        template = made["spec"]["template"]
        if affinity:
            assert template["spec"]["affinity"] == affinity
            continue
        (rule,) = template["spec"]["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        term = rule["podAffinityTerm"]
        assert term["topologyKey"] == "topology.kubernetes.io/zone"
        assert _selects(term["labelSelector"]["matchLabels"], template["metadata"]["labels"])


def test_ends_have_the_time_that_they_take() -> None:
    assert _pod(render(), *NODE)["terminationGracePeriodSeconds"] == 50
    slow = render({"node": {"settings": {"drainTimeout": 90.5}}, "router": {"preStopSeconds": 20}})
    assert _pod(slow, *NODE)["terminationGracePeriodSeconds"] == 111
    assert _pod(slow, *ROUTER)["terminationGracePeriodSeconds"] == 35
    assert _pod(slow, *ROUTER)["containers"][0]["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "20"]
    text = render({"node": {"terminationGracePeriodSeconds": 600}})
    assert _pod(text, *NODE)["terminationGracePeriodSeconds"] == 600


def test_a_digest_counts_more_than_a_tag() -> None:
    digest = f"sha256:{'0' * 64}"
    for image, expected in (
        ({}, f"framehold/router:{VERSION}"),
        ({"tag": "edge"}, "framehold/router:edge"),
        ({"tag": f"edge@{digest}"}, f"framehold/router:edge@{digest}"),
        ({"tag": "edge", "digest": digest}, f"framehold/router@{digest}"),
    ):
        assert _pod(render({"router": {"image": image}}), *ROUTER)["containers"][0]["image"] == expected


@pytest.mark.parametrize(("image", "end"), [({}, "@sha256:"), ({"tag": "9.2"}, ":9.2")])
def test_the_store_is_one_to_the_byte_until_another_tag_is_said(image: dict[str, str], end: str) -> None:
    [container] = _pod(render({"store": {"bundled": {"image": image}}}), "StatefulSet", "fleet-framehold-store")[
        "containers"
    ]
    assert container["image"].startswith("valkey/valkey:9.") and end in container["image"]
    assert ("@" in container["image"]) == (not image)


@pytest.mark.parametrize("kind", ["", *CI])
def test_no_pod_may_do_more_than_it_needs(kind: str) -> None:
    pods = [each["spec"]["template"]["spec"] for each in _workloads(render(ci(kind) if kind else {}))]
    assert len(pods) >= 2
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"]
        # OpenShift chooses a user itself.
        assert kind == "openshift" or pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False and pod["enableServiceLinks"] is False
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"]["limits"]["memory"], "a container without a limit on memory"


def test_nodes_come_and_go_side_by_side_and_are_named_while_they_drain() -> None:
    rendered = render()
    assert rendered.one(*NODE)["spec"]["podManagementPolicy"] == "Parallel"
    headless = rendered.one("Service", "fleet-framehold-node")["spec"]
    assert headless["clusterIP"] == "None" and headless["publishNotReadyAddresses"] is True
    assert rendered.one(*NODE)["spec"]["serviceName"] == "fleet-framehold-node"
    # Routers call addresses, with the client's Host: a mesh that reads HTTP would look for a service of that name.
    assert {port["name"]: port["appProtocol"] for port in headless["ports"]} == {"http": "tcp", "admin": "http"}


def test_nodes_are_renewed_one_at_a_time_and_routers_before_the_old_ones_leave() -> None:
    """All nodes at once would leave nobody to hand calls off to; without a router there is no front."""
    rendered = render()
    assert rendered.one(*NODE)["spec"]["updateStrategy"] == {"type": "RollingUpdate"}
    renewed = rendered.one(*ROUTER)["spec"]["strategy"]
    assert renewed == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


@pytest.mark.parametrize("where", [NODE, ROUTER, HAPROXY], ids=["node", "router", "haproxy"])
def test_what_kills_a_process_asks_for_nothing_but_its_loop(where: tuple[str, str]) -> None:
    """A store that is away or a drain make it unready, and must not end it; a process that hangs is ended within a
    minute."""
    (container,) = _pod(render({"haproxy": {"enabled": True}}), *where)["containers"]
    paths = {kind: container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "readiness", "liveness")}
    assert paths == {"startup": "/healthz", "readiness": "/readyz", "liveness": "/healthz"}
    alive = container["livenessProbe"]
    assert alive["periodSeconds"] * alive["failureThreshold"] + alive["terminationGracePeriodSeconds"] <= 60


def test_a_scaler_owns_the_number_of_what_it_scales() -> None:
    scaled = {"autoscaling": {"enabled": True}}
    rendered = render({"node": scaled, "router": scaled})
    for where in (NODE, ROUTER):
        assert "replicas" not in rendered.one(*where)["spec"]
        assert render().one(*where)["spec"]["replicas"] > 0


def test_every_selector_finds_the_pods_that_it_is_meant_for() -> None:
    rendered = render({"haproxy": {"enabled": True}})
    pods = {each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"] for each in _workloads(rendered)}
    chosen = {
        each["metadata"]["name"]: [name for name, labels in pods.items() if _selects(each["spec"]["selector"], labels)]
        for each in rendered.of("Service")
    }
    assert chosen == {"fleet-framehold": ["fleet-framehold-haproxy"]} | {name: [name] for name in pods}
    assert len(pods) == 4
    assert all(
        _selects(each["spec"]["selector"]["matchLabels"], pods[each["metadata"]["name"]])
        for each in _workloads(rendered)
    )


def _selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return selector.items() <= labels.items()


def _workloads(rendered: Rendered) -> list[Object]:
    return rendered.of("Deployment") + rendered.of("StatefulSet")
