"""The files of values that installations begin with: each is right, says for whom it is, and is what it says."""

from __future__ import annotations

import base64
import re
from typing import Any

import helm_python
import pytest

from framehold_store.config import StoreConfig
from tests.helm.chart.render import CHART, CI, Rendered, ci, render
from tests.processes import ROOT

pytestmark = pytest.mark.chart

KINDS = {"trial", "production", "gitops", "haproxy", "autoscaled", "openshift", "strict", "load"}


def merged(*kinds: str) -> dict[str, Any]:
    """As with one `-f` for each."""

    def over(lower: Any, upper: Any) -> Any:
        if not (isinstance(lower, dict) and isinstance(upper, dict)):
            return upper
        return {**lower, **{key: over(lower.get(key), value) for key, value in upper.items()}}

    values: Any = {}
    for kind in kinds:
        values = over(values, ci(kind))
    return dict(values)


def names(rendered: Rendered, kind: str) -> set[str]:
    return {made["metadata"]["name"] for made in rendered.of(kind)}


def test_there_is_one_for_each_kind_of_installation() -> None:
    assert set(CI) == KINDS


@pytest.mark.parametrize("kind", CI)
def test_its_head_says_for_whom_it_is(kind: str) -> None:
    assert CI[kind].read_text(encoding="utf-8").startswith("# For ")


@pytest.mark.parametrize("kind", CI)
def test_helm_finds_nothing_to_criticise(kind: str) -> None:
    """Warnings are faults here; what is left is advice."""
    report = helm_python.lint(str(CHART), ci(kind), namespace="prod", strict=True)
    assert report["errors"] == []
    assert [text for text in report["messages"] if text["severity"] > 1] == []


_TOGETHER = [
    ("production", "haproxy"),
    ("production", "autoscaled"),
    ("haproxy", "autoscaled"),
    ("production", "openshift"),
    ("gitops", "strict"),
]


@pytest.mark.parametrize("kinds", _TOGETHER)
def test_those_that_say_so_go_together(kinds: tuple[str, ...]) -> None:
    rendered = render(merged(*kinds))
    assert bool(names(rendered, "HorizontalPodAutoscaler")) == ("autoscaled" in kinds)
    assert ("fleet-framehold-haproxy" in names(rendered, "Deployment")) == ("haproxy" in kinds)


def test_a_load_test_calls_the_fleet_that_it_is_installed_with() -> None:
    """Its workers run the same scenario as their master, against the front Service."""
    rendered = render(ci("load"))
    master, worker = (
        rendered.one("Job", f"locust-{role}")["spec"]["template"]["spec"]["containers"][0]["args"]
        for role in ("master", "worker")
    )
    front = master[master.index("--host") + 1].removeprefix("http://")
    assert front in names(rendered, "Service")
    assert worker[worker.index("--master-host") + 1] in names(rendered, "Service")
    assert master[master.index("--scenario") :] == worker[worker.index("--scenario") :]
    assert master[master.index("--expect-workers") + 1] == str(
        rendered.one("Job", "locust-worker")["spec"]["parallelism"]
    )
    node = rendered.one("StatefulSet", "fleet-framehold-node")["spec"]["template"]["spec"]["containers"][0]
    assert (ROOT / "loadtest" / node["command"][-1].replace(".", "/")).with_suffix(".py").exists()


@pytest.mark.parametrize("kind", ["production", "gitops"])
def test_what_must_outlive_the_release_stands_in_secrets_that_are_not_its_own(kind: str) -> None:
    rendered = render(ci(kind))
    assert rendered.of("Secret") == []
    assert "fleet-framehold-store" not in names(rendered, "StatefulSet")


def test_gitops_renders_the_same_each_time() -> None:
    """A sync that finds nothing new changes nothing."""
    assert render(ci("gitops")).objects == render(ci("gitops")).objects


def test_a_trial_draws_keys_and_brings_a_store_that_keeps_nothing() -> None:
    rendered = render(ci("trial"))
    keys = rendered.one("Secret", "fleet-framehold")["data"]["keys"]
    assert len(base64.b64decode(keys)) >= 32
    assert "volumeClaimTemplates" not in rendered.one("StatefulSet", "fleet-framehold-store")["spec"]


def test_production_runs_an_image_by_its_digest_and_trusts_its_stores_authority() -> None:
    rendered = render(ci("production"))
    pod = rendered.one("StatefulSet", "fleet-framehold-node")["spec"]["template"]["spec"]
    assert re.fullmatch(r"registry\.example\.com/weather@sha256:[0-9a-f]{64}", pod["containers"][0]["image"])
    assert pod["containers"][0]["command"][-1] == "server.py"
    mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted["store-tls"] == "/etc/framehold/store-tls"


def test_the_url_that_production_is_told_to_keep_is_one() -> None:
    """It stands in the file's head, since it belongs into a Secret."""
    (url,) = re.findall(r"url='([^']+)'", CI["production"].read_text(encoding="utf-8"))
    address = StoreConfig(url=url).address
    assert address is not None
    assert (address.kind, address.tls, len(address.places), address.service) == ("sentinel", True, 3, "mymaster")
    assert "ssl_ca_certs=%2Fetc%2Fframehold%2Fstore-tls%2Fca.crt" in address.server
    render({**ci("production"), "store": {"url": url, "tls": {"caSecret": "redis-ca"}}})


def test_production_is_watched_and_reached_by_whom_it_names_alone() -> None:
    rendered = render(ci("production"))
    assert names(rendered, "PrometheusRule")
    assert len(rendered.of("ServiceMonitor")) == 2
    assert len(rendered.of("ConfigMap")) == 3
    (rule,) = rendered.one("Ingress", "fleet-framehold")["spec"]["rules"]
    assert rule["host"] == "mcp.example.com"
    for policy in rendered.of("NetworkPolicy"):
        assert all(door["from"] for door in policy["spec"]["ingress"])
