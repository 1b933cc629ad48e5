"""What Prometheus scrapes and asks, the alerts that it loads, and the dashboards that Grafana finds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from framehold_fleet.telemetry.bounds import FAILOVER
from tests.helm.chart.golden import ALERTS, FOLLOWING, NAMES, rendered
from tests.helm.chart.render import CHART, Object, render
from tests.helm.known import known
from tests.helm.promql import promtool, unread

pytestmark = pytest.mark.chart

OF_TARGETS = {"namespace", "service", "pod", "container", "endpoint", "job", "instance"}
"""Labels that the Prometheus operator gives the series of a target."""
BOARDS = sorted(CHART.glob("dashboards/*.json"))


def _metrics(**values: Any) -> dict[str, Any]:
    return {"metrics": {name: {"enabled": True, **options} for name, options in values.items()}}


def _rule(options: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    return {"node": {"settings": settings}, **_metrics(prometheusRule=options or {})}


def _groups(values: dict[str, Any]) -> list[Object]:
    groups: list[Object] = render(values).one("PrometheusRule", "fleet-framehold")["spec"]["groups"]
    return groups


def _alerts(groups: list[Object]) -> dict[str, Object]:
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def test_labels_of_metrics_and_those_of_targets_never_meet() -> None:
    """The former count (`honorLabels`): one called `instance` would have the alerts name something else."""
    own = {name: series.labels & OF_TARGETS for name, series in known().items() if name not in {"up", "ALERTS"}}
    assert {name: labels for name, labels in own.items() if labels} == {}


def test_the_alerts_are_those_of_the_file_with_links_that_lead_somewhere() -> None:
    groups = _groups(_rule({"runbookUrl": "https://example.com/"}))
    for rule in _alerts(groups).values():
        rule["annotations"]["runbook_url"] = rule["annotations"]["runbook_url"].removeprefix("https://example.com/")
    assert groups == ALERTS


@pytest.mark.parametrize("settings", [{}, {"leaseTtl": 12.5, "tokenTtl": 7200, "maxRound": 301}])
def test_prometheus_reads_the_alerts(settings: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": _groups(_rule(**settings))}))
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(NAMES)} rules found" in done.stdout


def test_alerts_can_be_left_out_a_whole_group_too() -> None:
    gone = [rule["alert"] for rule in ALERTS[0]["rules"]] + ["FrameholdRingSkew"]
    groups = _groups(_rule({"disabled": gone}))
    assert [group["name"] for group in groups] == [group["name"] for group in ALERTS[1:]]
    assert list(_alerts(groups)) == [name for name in NAMES if name not in gone]


def test_an_alert_that_is_not_there_can_not_be_left_out() -> None:
    """A misspelt name would go on waking somebody."""
    with pytest.raises(helm_python.HelmError) as refused:
        render(_rule({"disabled": ["FrameholdRingSkewed"]}))
    text = str(refused.value)
    assert "metrics.prometheusRule.disabled names FrameholdRingSkewed, and no alert is called so; there are " in text
    assert all(name in text for name in NAMES)


def test_longer_times_change_the_alerts_that_are_said_to_follow_them_and_shorter_ones_none() -> None:
    """The golden file of the alerts has the figures."""
    usual, longer = _alerts(_groups(_rule())), _alerts(_groups(_rule(leaseTtl=12.5, tokenTtl=7200)))
    assert {name for name in NAMES if usual[name] != longer[name]} == set(FOLLOWING)
    for shorter in ({"leaseTtl": 3, "tokenTtl": 60}, {"leaseTtl": 5.0}):
        assert _alerts(_groups(_rule(**shorter))) == usual


@pytest.mark.parametrize("lease", [5.5, 9.5, 12.5, 15, 29, 30, 75, 149, 300])
def test_a_slow_takeover_is_told_from_a_usual_one_whatever_the_lease(lease: float) -> None:
    """A histogram tells no two times between the same two bounds apart, and none beyond its last one."""
    rule = _alerts(_groups(_rule(leaseTtl=lease)))["FrameholdFailoverSlow"]
    (limit,) = map(float, re.findall(r"> ([\d.]+)", rule["expr"]))
    assert limit == next(bound for bound in FAILOVER[:-1] if bound >= 2 * lease)


def test_keda_asks_for_the_parked_frames_of_this_fleets_nodes(tmp_path: Path) -> None:
    """All of them in one number: KEDA wants one, and divides it by the nodes that there are. A missing answer is no
    0: nodes would go because their metrics are missing."""
    trigger = rendered("keda").one("ScaledObject", "fleet-framehold-node")["spec"]["triggers"][-1]["metadata"]
    assert trigger["ignoreNullValues"] == "false"
    assert unread([trigger["query"]], tmp_path) == ""
    asked = re.fullmatch(r'sum\((\w+)\{namespace="(.+)",pod=~"(.+)"\}\)', trigger["query"])
    assert asked and asked[1] in known() and asked[2] == "prod"
    assert re.fullmatch(asked[3], "fleet-framehold-node-12")
    others = ("other-fleet-framehold-node-0", "fleet-framehold-node-0-x", "fleet-framehold-router-0")
    assert not any(re.fullmatch(asked[3], other) for other in others)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_a_dashboard_is_found_by_its_label_and_is_the_file(board: Path) -> None:
    options = {"labels": {"grafana_dashboard": "1", "team": "booking"}, "annotations": {"folder": "Fleets"}}
    found = render(_metrics(dashboards=options)).one("ConfigMap", f"fleet-framehold-dashboard-{board.stem}")
    assert found["metadata"]["labels"].items() >= options["labels"].items()
    assert found["metadata"]["annotations"] == options["annotations"]
    [(name, text)] = found["data"].items()
    assert name == f"framehold-{board.stem}.json" and json.loads(text) == json.loads(board.read_text())
    assert len(text) < 2**20, "more than a ConfigMap holds"
