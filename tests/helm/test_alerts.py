"""Each alert fires when it should, clears when it is over, names what there is, and has its section in the runbook."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.known import TARGET
from tests.helm.promql import grouped, promtool, selectors, wrong
from tests.helm.runbook import ROOT, anchors

pytestmark = pytest.mark.chart

RULES = ROOT / "helm" / "framehold" / "alerts" / "framehold.yaml"
UNITS = sorted(Path(__file__).parent.glob("*_test.yaml"))
_UNIT = {"s": 1, "m": 60, "h": 3600}

Rule = dict[str, Any]


def alerts() -> list[Rule]:
    """All rules of the file."""
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def seconds(duration: str) -> int:
    """`1h2m30s` in seconds."""
    return sum(int(number) * _UNIT[unit] for number, unit in re.findall(r"(\d+)([hms])", duration))


def fired_and_cleared(tests: Iterable[dict[str, Any]]) -> tuple[set[str], set[str]]:
    """Which alerts some test sees firing, and which it sees silent later, with the same input."""
    fired, cleared = set(), set()
    for test in tests:
        looks = sorted(test.get("alert_rule_test", ()), key=lambda look: seconds(look["eval_time"]))
        before = set()
        for look in looks:
            name = look["alertname"]
            if look["exp_alerts"]:
                before.add(name)
            elif name in before:
                cleared.add(name)
        fired |= before
    return fired, cleared


def every_test() -> Iterator[dict[str, Any]]:
    for file in UNITS:
        yield from yaml.safe_load(file.read_text())["tests"]


def test_prometheus_reads_the_rules() -> None:
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", RULES)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_rules_do_what_their_scenarios_say(unit: Path) -> None:
    done = promtool("test", "rules", unit)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_seen_to_fire_and_to_clear() -> None:
    names = {rule["alert"] for rule in alerts()}
    fired, cleared = fired_and_cleared(every_test())
    assert fired == names and cleared == names


def test_an_alert_that_nobody_sees_clear_is_noticed() -> None:
    fires = {"alertname": "A", "eval_time": "1m30s", "exp_alerts": [{"exp_labels": {}}]}
    quiet = {"alertname": "A", "eval_time": "59s", "exp_alerts": []}
    assert fired_and_cleared([{"alert_rule_test": [fires, quiet]}]) == ({"A"}, set())
    assert fired_and_cleared([{"alert_rule_test": [fires, {**quiet, "eval_time": "1h"}]}]) == ({"A"}, {"A"})
    assert fired_and_cleared([{"alert_rule_test": [fires]}, {"alert_rule_test": [quiet]}]) == ({"A"}, set())


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_names_only_what_processes_expose(rule: Rule) -> None:
    assert list(wrong(rule["expr"])) == []


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ("rate(framehold_round_total[5m]) > 0", "no metric framehold_round_total"),
        ('framehold_leases{status="stuck"}', "framehold_leases has no label status"),
        ('framehold_leases{state=~"stuck|lonely"}', "framehold_leases is never state=lonely"),
        ('framehold_lease_ops_total{op="claim",result="LOST"}', "framehold_lease_ops_total is never result=LOST"),
        ("sum by (reason) (framehold_fenced_writes_total)", "nothing has a label reason"),
    ],
)
def test_a_name_that_nothing_exposes_is_noticed(expr: str, text: str) -> None:
    assert list(wrong(expr)) == [text]


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_where_to_read_on(rule: Rule) -> None:
    """The section has the alert's own name, so that it is found with and without the link."""
    assert rule["labels"] == {"severity": rule["labels"]["severity"]} and rule["labels"]["severity"] in {
        "page",
        "ticket",
    }
    result = rule["annotations"]
    assert set(result) == {"summary", "description", "runbook_url"} and all(result.values())
    page, _, anchor = result["runbook_url"].partition("#")
    assert page == "docs/runbook.md" and anchor == rule["alert"].lower() and anchor in anchors(ROOT / page)


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_speaks_of_labels_that_it_has(rule: Rule) -> None:
    """A label that it hasn't would be a blank in the middle of a sentence."""
    used = set(re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values())))
    aggregated = "by (" in rule["expr"]
    assert used <= (grouped(rule["expr"]) if aggregated else TARGET)
    assert any(selectors(rule["expr"]))


def test_all_alerts_are_kept_apart_by_fleet() -> None:
    """Two fleets that one Prometheus watches are never counted together, in one namespace either."""
    for rule in alerts():
        groups = re.findall(r"\bby \(([^)]*)\)", rule["expr"])
        assert all({"namespace", "job"} <= set(group.split(", ")) for group in groups), rule["alert"]
