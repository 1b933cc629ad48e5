"""Installations whose rendering is kept: the usual one in full, of the others their values and what these change of it.
A case that is added begins with `values`.

To change them: `python -m tests.helm.chart.golden`, then read what it changed. The custom resources were compared
with the CRDs of prometheus-operator 0.93.0, KEDA 2.20.2 and Gateway API 1.6.1 (standard channel; its timeouts are there
since 1.2), with unknown fields refused.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.helm.chart.render import CHART, CHART_VERSION, VERSION, Object, Rendered, ci, render

FOLDER = Path(__file__).parent / "golden"
ALERTS = yaml.safe_load((CHART / "alerts/framehold.yaml").read_text())["groups"]
"""The groups of the file."""
NAMES = [rule["alert"] for group in ALERTS for rule in group["rules"]]
FOLLOWING = ("FrameholdLeaseOrphaned", "FrameholdFailoverSlow", "FrameholdNodeHeartbeatStale")
"""Alerts whose figures follow settings."""
PARTS = {"node": "StatefulSet", "router": "Deployment", "haproxy": "Deployment", "store": "StatefulSet"}
CASES = sorted(path.stem for path in FOLDER.glob("*.yaml") if path.stem != "usual")
GONE = "(gone)"
_OWN_VERSION = re.compile(rf"(?<![\d.])({re.escape(VERSION)}|{re.escape(CHART_VERSION)})(?!\d|\.\d)")
"""It is left out: a release changes it everywhere."""


@cache
def read(case: str) -> Object:
    """What the file of that case says: its `values`, and the `changes` that were found right."""
    found: Object = yaml.load((FOLDER / f"{case}.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return found


@cache
def values(case: str) -> dict[str, Any]:
    """The values of a case, over the usual ones: its own, or those of a file that installations begin with."""
    given: dict[str, Any] = ci(case.removeprefix("ci-")) if case.startswith("ci-") else read(case)["values"]
    if case == "ci-production":
        # The alerts of the file are read by promtool elsewhere, and here they would hide all else.
        given["metrics"]["prometheusRule"]["disabled"] = NAMES[1:]
    return given


def over(lower: Any, upper: Any) -> Any:
    """Values over values, as Helm lays the one file over the other."""
    if not (isinstance(lower, dict) and isinstance(upper, dict)):
        return upper
    return {**lower, **{key: over(lower.get(key), value) for key, value in upper.items()}}


@cache
def rendered(case: str) -> Rendered:
    """The installation of that case; `usual` has HAProxy in front, and all else as it is without values."""
    return render(over({"haproxy": {"enabled": True}}, {} if case == "usual" else values(case)))


def changes(case: str) -> Object:
    """What the values of that case change of the usual installation now; of `usual`, all of it."""
    usual = _kept(rendered("usual"))
    return usual if case == "usual" else dict(_changes(usual, _kept(rendered(case))))


def _kept(what: Rendered) -> Object:
    """Its objects by their kinds and names, and its notes, without what is drawn anew each time."""
    objects = {f"{each['kind']} {each['metadata']['name']}": _settled(each) for each in what.objects}
    text = json.dumps({**objects, "notes": what.notes})
    kept: Object = json.loads(_OWN_VERSION.sub("VERSION", text))
    return kept


def _settled(made: Object) -> Object:
    """Without values of Secrets and what follows from them, and without the texts of dashboards."""
    if made["kind"] == "Secret" or "-dashboard-" in made["metadata"]["name"]:
        made = {**made, "data": dict.fromkeys(made["data"], "...")}
    template = made.get("spec", {}).get("template", {})
    for name in template.get("metadata", {}).get("annotations", {}):
        if name.startswith("checksum/"):
            template["metadata"]["annotations"][name] = "..."
    return made


def _changes(was: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each place where the two differ, with what is there now; of a text the lines that differ."""
    if was == now:
        return
    if isinstance(was, str) and isinstance(now, str) and "\n" in was:
        lines = difflib.unified_diff(was.splitlines(), now.splitlines(), n=0, lineterm="")
        yield path, [line for line in lines if not line.startswith(("---", "+++", "@@"))]
        return
    was, now = _keyed(was), _keyed(now)
    if not (isinstance(was, dict) and isinstance(now, dict)):
        yield path, now
        return
    for key in {**was, **now}:
        yield from _changes(was.get(key, GONE), now.get(key, GONE), f"{path}.{key}" if path else key)


def _keyed(value: Any) -> Any:
    """A list of things that have names, by these names."""
    if isinstance(value, list) and value and all(isinstance(each, dict) and "name" in each for each in value):
        return {each["name"]: each for each in value}
    return value


class _Readable(yaml.SafeDumper):  # type: ignore[misc]  # PyYAML ships no types
    """YAML in which a text of several lines is one."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Readable.add_representer(str, _Readable.represent_text)


def write() -> None:
    """Take what the chart makes now for right."""
    for case in ("usual", *CASES):
        made = changes(case)
        if case != "usual":
            made = {**{key: value for key, value in read(case).items() if key == "values"}, "changes": made}
        text = yaml.dump(made, Dumper=_Readable, width=140, sort_keys=False, allow_unicode=True)
        (FOLDER / f"{case}.yaml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
