"""What Prometheus scrapes, the alerts that it loads, and the dashboards that Grafana finds.

The golden files were compared with the CRDs of prometheus-operator 0.93.0, KEDA 2.20.2 and Gateway API 1.6.1 (standard
channel; its timeouts are there since 1.2), with unknown fields refused.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from tests.helm.chart.golden import ALERTS, FOLDER, FOLLOWING, GOLDEN, NAMES, made, read
from tests.helm.chart.reach import chosen
from tests.helm.chart.render import CHART, Object, Rendered, render
from tests.helm.known import known
from tests.helm.promql import promtool

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


@pytest.mark.parametrize("name", GOLDEN)
def test_a_custom_resource_is_what_was_found_right(name: str) -> None:
    """To change them: `python -m tests.helm.chart.golden`, then read what it changed."""
    assert made(name) == read(name)


def test_no_golden_file_is_left_behind() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == GOLDEN.keys()


def test_what_operators_of_others_read_is_there_only_when_it_is_asked_for() -> None:
    kinds = {each["kind"] for each in render({"haproxy": {"enabled": True}}).objects}
    assert not kinds & {"ServiceMonitor", "PrometheusRule", "ScaledObject", "HTTPRoute"}
    assert not any("dashboard" in each["metadata"]["name"] for each in render().of("ConfigMap"))


@pytest.mark.parametrize(("haproxy", "parts"), [(False, ["node", "router"]), (True, ["haproxy", "node", "router"])])
def test_every_process_is_scraped_once_and_kinds_are_jobs_of_their_own(haproxy: bool, parts: list[str]) -> None:
    """A job is called after its Service. The front Service has the same pods, and must not be one."""
    near = {"networkPolicy": {"scrapeFrom": [{"podSelector": {}}]}, "haproxy": {"enabled": haproxy}}
    rendered = render({**_metrics(serviceMonitor={"interval": "20s"}), **near})
    jobs = []
    for monitor in rendered.of("ServiceMonitor"):
        [endpoint] = monitor["spec"]["endpoints"]
        [service] = _chosen(rendered, monitor["spec"]["selector"])
        assert endpoint["port"] in [port["name"] for port in service["spec"]["ports"]]
        assert (endpoint["interval"], endpoint["path"]) == ("20s", "/metrics")
        jobs.append(service["metadata"]["name"])
    assert sorted(jobs) == [f"fleet-framehold-{part}" for part in parts]


def _chosen(rendered: Rendered, selector: Object) -> list[Object]:
    return [each for each in rendered.of("Service") if chosen(selector, each["metadata"]["labels"])]


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


def test_alerts_that_count_in_leases_follow_a_longer_lease() -> None:
    """Three and two times it, as the head of the file says."""
    alerts = _alerts(_groups(_rule(leaseTtl=12.5)))
    stale, slow = alerts["FrameholdNodeHeartbeatStale"], alerts["FrameholdFailoverSlow"]
    assert "framehold_node_heartbeat_age_seconds) > 37.5\n" in stale["expr"]
    assert "has not renewed it for 37.5 s" in stale["annotations"]["description"]
    assert slow["expr"].endswith(")) > 25\n")
    assert "up to 13.5 s is usual" in slow["annotations"]["description"]


def test_calls_of_dead_nodes_may_wait_for_as_long_as_their_records_live() -> None:
    """Two hours, a round of 5 minutes and one more; then the 4 minutes that the default leaves too."""
    orphaned = _alerts(_groups(_rule(tokenTtl=7200)))["FrameholdLeaseOrphaned"]
    assert orphaned["for"] == "130m"
    assert "for 130 minutes: longer than a record lives." in orphaned["annotations"]["description"]


@pytest.mark.parametrize("settings", [{"leaseTtl": 3, "tokenTtl": 60}, {"leaseTtl": 5.0}])
def test_shorter_times_leave_the_alerts_as_they_are(settings: dict[str, Any]) -> None:
    assert _groups(_rule(**settings)) == _groups(_rule())


def test_settings_change_the_alerts_that_are_said_to_follow_them_and_no_other() -> None:
    usual, longer = _alerts(_groups(_rule())), _alerts(_groups(_rule(leaseTtl=12.5, tokenTtl=7200)))
    assert {name for name in NAMES if usual[name] != longer[name]} == set(FOLLOWING)


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_a_dashboard_is_found_by_its_label_and_is_the_file(board: Path) -> None:
    options = {"labels": {"grafana_dashboard": "1", "team": "booking"}, "annotations": {"folder": "Fleets"}}
    found = render(_metrics(dashboards=options)).one("ConfigMap", f"fleet-framehold-dashboard-{board.stem}")
    assert found["metadata"]["labels"].items() >= options["labels"].items()
    assert found["metadata"]["annotations"] == options["annotations"]
    [(name, text)] = found["data"].items()
    assert name == f"framehold-{board.stem}.json" and json.loads(text) == json.loads(board.read_text())
    assert len(text) < 2**20, "more than a ConfigMap holds"
