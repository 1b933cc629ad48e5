"""The dashboards load, show what processes expose, and say what each panel means."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helm.known import TARGET, families, known
from tests.helm.promql import grouped, selectors, unread, wrong
from tests.helm.runbook import ROOT

pytestmark = pytest.mark.chart

BOARDS = sorted((ROOT / "helm" / "framehold" / "dashboards").glob("*.json"))
SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
SELECTED = ("namespace", "job", "instance")
OF_FLEET = {"framehold_nodes", "framehold_leases", "framehold_router_calls_lost_total"}
"""Metrics of which each process of a fleet exposes the same."""
_BUILT_IN = {"$__rate_interval": "5m"}
_WIDTH = 24

Panel = dict[str, Any]


def board(file: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(file.read_text())
    return loaded


def panels(file: Path) -> list[Panel]:
    """All panels that show something measured."""
    return [panel for panel in board(file)["panels"] if panel["type"] not in {"row", "text"}]


def expressions(file: Path) -> Iterator[str]:
    """Each expression of a board, with its variables replaced."""
    for panel in panels(file):
        yield from (plain(target["expr"]) for target in panel["targets"])
    yield from (plain(note["expr"]) for note in board(file)["annotations"]["list"])


def plain(expr: str) -> str:
    """As Grafana would send it, with all of everything selected."""
    for name, value in _BUILT_IN.items():
        expr = expr.replace(name, value)
    for name in SELECTED:
        expr = re.sub(rf', {name}=~"\${name}"|{name}=~"\${name}"(, )?', "", expr)
    assert "$" not in expr, f"a variable that no board has: {expr}"
    return expr.replace("{}", "")


def under(key: str, value: Any) -> Iterator[Any]:
    """Whatever stands under `key`, anywhere in `value`."""
    if isinstance(value, dict):
        yield from (inner for name, inner in value.items() if name == key)
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from under(key, inner)


def boxes(file: Path) -> list[tuple[int, int, int, int]]:
    places = [panel["gridPos"] for panel in board(file)["panels"]]
    return [(place["x"], place["y"], place["w"], place["h"]) for place in places]


def overlap(one: tuple[int, int, int, int], other: tuple[int, int, int, int]) -> bool:
    (x, y, w, h), (a, b, c, d) = one, other
    return x < a + c and a < x + w and y < b + d and b < y + h


def test_there_is_one_for_the_fleet_for_nodes_and_for_routers() -> None:
    assert [file.stem for file in BOARDS] == ["fleet", "node", "router"]
    uids = {board(file)["uid"] for file in BOARDS}
    assert uids == {"framehold-fleet", "framehold-node", "framehold-router"}


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_a_board_can_be_provisioned_as_it_is(file: Path) -> None:
    """It belongs to no instance of Grafana, and to any data source."""
    loaded = board(file)
    assert "id" not in loaded and "__inputs" not in loaded and loaded["schemaVersion"] == 39
    names = [variable["name"] for variable in loaded["templating"]["list"]]
    assert names == ["DS_PROMETHEUS", *SELECTED]
    assert loaded["templating"]["list"][0]["type"] == "datasource"
    sources = list(under("datasource", loaded))
    assert sources and all(source == SOURCE for source in sources)


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_panels_are_told_apart_and_do_not_overlap(file: Path) -> None:
    numbers = [panel["id"] for panel in board(file)["panels"]]
    assert len(numbers) == len(set(numbers))
    titles = [panel["title"] for panel in board(file)["panels"]]
    assert len(titles) == len(set(titles)) and all(titles)
    placed = boxes(file)
    assert all(x >= 0 and x + w <= _WIDTH and h > 0 for x, _, w, h in placed)
    assert [(a, b) for n, a in enumerate(placed) for b in placed[:n] if overlap(a, b)] == []


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_every_panel_says_what_it_means_and_in_which_unit(file: Path) -> None:
    for panel in panels(file):
        assert len(panel["description"]) > 20 and panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == SOURCE and all(target["datasource"] == SOURCE for target in panel["targets"])


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_prometheus_reads_every_expression(file: Path, tmp_path: Path) -> None:
    assert unread(expressions(file), tmp_path) == ""


def test_an_expression_that_prometheus_can_not_read_is_noticed(tmp_path: Path) -> None:
    assert "parse error" in unread(["sum(rate(up[5m])"], tmp_path)


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_a_board_names_only_what_processes_expose(file: Path) -> None:
    assert {expr: found for expr in expressions(file) if (found := list(wrong(expr)))} == {}


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_every_expression_keeps_to_what_is_selected(file: Path) -> None:
    for panel in panels(file):
        for expr in (target["expr"] for target in panel["targets"]):
            for selector in selectors(expr):
                wanted = {label: value for label, _, value in selector.wants}
                chosen = SELECTED if selector.name != "ALERTS" else SELECTED[:1]
                assert all(wanted.get(name) == f"${name}" for name in chosen), (panel["title"], selector)


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_a_legend_speaks_of_labels_that_its_series_have(file: Path) -> None:
    for panel in panels(file):
        for target in panel["targets"]:
            expr = plain(target["expr"])
            if not (used := set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))):
                continue
            bare = set().union(*(known()[one.name].labels for one in selectors(expr))) | TARGET
            assert used <= (grouped(expr) if " by (" in expr else bare), (panel["title"], target["legendFormat"])


def test_every_metric_is_on_some_board() -> None:
    shown = {selector.name for file in BOARDS for expr in expressions(file) for selector in selectors(expr)}
    bare = {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in shown}
    assert {name for name in families() if name not in bare} == set()


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_processes_of_one_name_in_two_namespaces_are_two(file: Path) -> None:
    """As the nodes of releases of one name are: together, two live ones would be one that drains."""
    for panel in panels(file):
        for target in panel["targets"]:
            groups = [set(group.split(", ")) for group in re.findall(r"\bby \(([^)]*)\)", target["expr"])]
            groups.append(set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])))
            assert all("namespace" in group for group in groups if group & {"instance", "node"}), panel["title"]


@pytest.mark.parametrize("file", BOARDS, ids=lambda file: file.stem)
def test_what_each_process_says_of_its_whole_fleet_is_added_over_fleets(file: Path) -> None:
    for panel in panels(file):
        for expr in (plain(target["expr"]) for target in panel["targets"]):
            if panel["type"] == "stat" and {one.name for one in selectors(expr)} <= OF_FLEET:
                assert re.match(r"sum\((max|min) by \(namespace, job\b", expr), panel["title"]
