"""The chart as a part of another one, which turns it on, names it, and hands it values."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.chart.render import CHART, CHART_VERSION, Rendered, render

pytestmark = pytest.mark.chart

VALUES: dict[str, Any] = {
    "global": {"imageRegistry": "registry.example.com"},
    "booking": {"enabled": True, "node": {"settings": {"leaseTtl": 3}}},
    "weather": {"enabled": True, "auth": {"existingSecret": "weather-auth"}},
}


@pytest.fixture
def above(tmp_path: Path) -> Path:
    """A chart with two fleets in it, each under a name of its own."""
    about = {
        "apiVersion": "v2",
        "name": "platform",
        "version": "1.0.0",
        "dependencies": [
            {"name": "framehold", "version": CHART_VERSION, "alias": alias, "condition": f"{alias}.enabled"}
            for alias in ("booking", "weather")
        ],
    }
    (tmp_path / "Chart.yaml").write_text(yaml.safe_dump(about))
    shutil.copytree(CHART, tmp_path / "charts/framehold")
    return tmp_path


def _nodes(rendered: Rendered) -> dict[str, dict[str, Any]]:
    """The pods of each fleet's nodes, by the name of the StatefulSet."""
    sets = [made for made in rendered.of("StatefulSet") if made["metadata"]["name"].endswith("-node")]
    return {made["metadata"]["name"]: made["spec"]["template"] for made in sets}


def test_two_fleets_of_one_release_have_nothing_in_common(above: Path) -> None:
    rendered = render(VALUES, chart=above)
    nodes = _nodes(rendered)
    assert set(nodes) == {"fleet-booking-node", "fleet-weather-node"}
    names = [(made["kind"], made["metadata"]["name"]) for made in rendered.objects]
    assert len(names) == len(set(names))
    corners = [
        {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}["FRAMEHOLD_NAMESPACE"]
        for pod in nodes.values()
    ]
    assert len(set(corners)) == 2
    selectors = [tuple(sorted(made["spec"]["selector"].items())) for made in rendered.of("Service")]
    assert len({selector for selector in selectors if ("app.kubernetes.io/component", "node") in selector}) == 2


def test_defaults_are_the_same_below_another_chart(above: Path) -> None:
    """Helm handles a null of values.yaml differently there. The other fleet is turned off."""
    mine = render().one("StatefulSet", "fleet-framehold-node")["spec"]["template"]["spec"]
    (below,) = _nodes(render({**VALUES, "booking": {"enabled": False}}, chart=above)).values()
    below = below["spec"]
    for field in ("terminationGracePeriodSeconds", "securityContext", "automountServiceAccountToken"):
        assert below[field] == mine[field]
    assert len(below["topologySpreadConstraints"]) == len(mine["topologySpreadConstraints"]) == 1


def test_a_null_from_above_leaves_a_default_out(above: Path) -> None:
    scaled = {"enabled": True, "memoryPercent": None}
    values = {**VALUES, "booking": {"enabled": True, "node": {"autoscaling": scaled, "settings": {"leaseTtl": None}}}}
    rendered = render(values, chart=above)
    metrics = rendered.one("HorizontalPodAutoscaler", "fleet-booking-node")["spec"]["metrics"]
    assert [each["containerResource"]["name"] for each in metrics] == ["cpu"]
    env = _nodes(rendered)["fleet-booking-node"]["spec"]["containers"][0]["env"]
    assert "FRAMEHOLD_LEASE_TTL" not in [each["name"] for each in env]
