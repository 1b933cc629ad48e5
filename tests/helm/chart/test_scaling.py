"""How many pods there are: what scales them, on what grounds, how fast, and how many a drain of machines may take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.helm.chart.reach import chosen
from tests.helm.chart.render import CI, Object, Rendered, ci, render
from tests.helm.chart.schemas import RELEASES, faults
from tests.helm.known import known
from tests.helm.promql import unread

pytestmark = pytest.mark.chart

NODE, ROUTER = "fleet-framehold-node", "fleet-framehold-router"


def _scaled(**values: Any) -> Rendered:
    return render({"node": {"autoscaling": {"enabled": True, **values}}})


def _keda(**values: Any) -> Object:
    asks = {"kind": "KEDA", "prometheusUrl": "http://prometheus:9090", "parkedFrames": 5000}
    rendered = _scaled(**asks | values)
    spec: Object = rendered.one("ScaledObject", NODE)["spec"]
    return spec


def _hpa(rendered: Rendered, name: str = NODE) -> Object:
    spec: Object = rendered.one("HorizontalPodAutoscaler", name)["spec"]
    return spec


def _workloads(rendered: Rendered) -> list[Object]:
    return rendered.of("Deployment") + rendered.of("StatefulSet")


@pytest.mark.parametrize("kind", ["", *CI])
def test_a_drain_of_machines_takes_one_pod_of_a_kind_at_once(kind: str) -> None:
    """A budget of two kinds, or of another fleet, would be a budget of neither."""
    rendered = render(ci(kind) if kind else {})
    for budget in rendered.of("PodDisruptionBudget"):
        assert budget["spec"]["maxUnavailable"] == 1
        held = [
            made["metadata"]["name"]
            for made in _workloads(rendered)
            if chosen(budget["spec"]["selector"], made["spec"]["template"]["metadata"]["labels"])
        ]
        assert held == [budget["metadata"]["name"]]
    guarded = {budget["metadata"]["name"] for budget in rendered.of("PodDisruptionBudget")}
    assert guarded == {made["metadata"]["name"] for made in _workloads(rendered)} - {"fleet-framehold-store"}


def test_a_budget_may_be_a_share_or_left_out() -> None:
    rendered = render({"node": {"pdb": {"maxUnavailable": "25%"}}, "router": {"pdb": {"enabled": False}}})
    [budget] = rendered.of("PodDisruptionBudget")
    assert (budget["metadata"]["name"], budget["spec"]["maxUnavailable"]) == (NODE, "25%")


def test_nothing_is_scaled_unless_it_is_asked_for() -> None:
    rendered = render()
    assert rendered.of("HorizontalPodAutoscaler") == rendered.of("ScaledObject") == []


@pytest.mark.parametrize("kind", ["HPA", "KEDA"])
def test_whoever_scales_finds_what_it_scales_and_owns_its_number(kind: str) -> None:
    scaled = {"enabled": True, "kind": kind, "minReplicas": 4, "maxReplicas": 1000000}
    scaled |= {"prometheusUrl": "http://prometheus:9090", "parkedFrames": 5000}
    rendered = render({"node": {"autoscaling": scaled}, "router": {"autoscaling": {"enabled": True}}})
    scalers = rendered.of("HorizontalPodAutoscaler") + rendered.of("ScaledObject")
    assert sorted(made["metadata"]["name"] for made in scalers) == [NODE, ROUTER]
    for made in scalers:
        target = made["spec"]["scaleTargetRef"]
        workload = rendered.one(target["kind"], target["name"])
        assert target["apiVersion"] == workload["apiVersion"] and "replicas" not in workload["spec"]
    nodes = next(made["spec"] for made in scalers if made["metadata"]["name"] == NODE)
    bounds = [value for key, value in sorted(nodes.items()) if re.fullmatch("(min|max)Replica(s|Count)", key)]
    assert bounds == [1000000, 4]


def test_nodes_are_scaled_on_memory_and_cpu_as_parts_of_what_they_request() -> None:
    metrics = {
        each["containerResource"]["name"]: each["containerResource"]["target"] for each in _hpa(_scaled())["metrics"]
    }
    assert metrics == {
        "memory": {"type": "Utilization", "averageUtilization": 75},
        "cpu": {"type": "Utilization", "averageUtilization": 80},
    }
    shares = [each for each in _keda()["triggers"] if each["metricType"] == "Utilization"]
    assert {each["type"]: each["metadata"]["value"] for each in shares} == {"memory": "75", "cpu": "80"}


def test_what_runs_beside_a_process_is_no_ground() -> None:
    """A container that requests nothing, like a mesh's, would leave the HPA without a figure for the whole pod."""
    rendered = render({part: {"autoscaling": {"enabled": True}} for part in ("node", "router")})
    for name, kind in ((NODE, "StatefulSet"), (ROUTER, "Deployment")):
        [container] = rendered.one(kind, name)["spec"]["template"]["spec"]["containers"]
        metrics = _hpa(rendered, name)["metrics"]
        assert {each["containerResource"]["container"] for each in metrics} == {container["name"]}
    shares = [each for each in _keda()["triggers"] if each["metricType"] == "Utilization"]
    assert {each["metadata"]["containerName"] for each in shares} == {"node"}


def test_what_is_null_is_no_ground() -> None:
    frames = {"memoryPercent": None, "cpuPercent": None, "parkedFrames": 1000000}
    [metric] = _hpa(_scaled(**frames))["metrics"]
    assert metric["pods"]["metric"]["name"] in known()
    assert metric["pods"]["target"] == {"type": "AverageValue", "averageValue": "1000000"}
    [trigger] = _keda(**frames)["triggers"]
    assert (trigger["type"], trigger["metricType"], trigger["metadata"]["threshold"]) == (
        "prometheus",
        "AverageValue",
        "1000000",
    )


def test_keda_asks_for_the_parked_frames_of_this_fleets_nodes(tmp_path: Path) -> None:
    """All of them in one number: KEDA wants one, and divides it by the nodes that there are."""
    trigger = _keda()["triggers"][-1]["metadata"]
    assert trigger["serverAddress"] == "http://prometheus:9090"
    assert unread([trigger["query"]], tmp_path) == ""
    asked = re.fullmatch(r'sum\((\w+)\{namespace="(.+)",pod=~"(.+)"\}\)', trigger["query"])
    assert asked and asked[1] in known() and asked[2] == "prod"
    assert re.fullmatch(asked[3], f"{NODE}-12")
    assert not any(re.fullmatch(asked[3], other) for other in (f"other-{NODE}-0", f"{NODE}-0-x", f"{ROUTER}-0"))


def test_no_answer_of_prometheus_is_not_taken_for_no_frames() -> None:
    """KEDA's default is 0 for an empty answer, and would take nodes away because their metrics are missing."""
    assert _keda()["triggers"][-1]["metadata"]["ignoreNullValues"] == "false"


def test_nodes_come_at_once_and_go_one_by_one() -> None:
    hpa = _hpa(_scaled(scaleInSeconds=900))["behavior"]
    keda = _keda(scaleInSeconds=900)["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert (
        hpa
        == keda
        == {
            "scaleUp": {"stabilizationWindowSeconds": 0},
            "scaleDown": {
                "stabilizationWindowSeconds": 900,
                "policies": [{"type": "Pods", "value": 1, "periodSeconds": 900}],
            },
        }
    )


def test_routers_are_scaled_on_cpu() -> None:
    scaled = {"enabled": True, "minReplicas": 3, "maxReplicas": 9, "cpuPercent": 60}
    spec = _hpa(render({"router": {"autoscaling": scaled}}), ROUTER)
    [metric] = spec["metrics"]
    assert (spec["minReplicas"], spec["maxReplicas"]) == (3, 9)
    assert metric["containerResource"] == {
        "name": "cpu",
        "container": "router",
        "target": {"type": "Utilization", "averageUtilization": 60},
    }


@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]])
def test_kubernetes_takes_what_scales(release: str) -> None:
    rendered = _scaled(parkedFrames=5000)
    made = rendered.of("HorizontalPodAutoscaler") + rendered.of("PodDisruptionBudget")
    assert len(made) == 3
    assert [fault for each in made for fault in faults(each, release)] == []
