"""The alert rules over the metrics of a scene, evaluated by promtool: the rules of the chart as they are.

A scene lasts some seconds, and most alerts wait for minutes. So its scrapes are stretched:

    1. for two minutes all series stand as they were scraped before the scene
    2. for HELD minutes gauges stand as they were scraped in the scene. Counters stand there too after a single event;
       in a state that lasts they go on growing as fast as they grew in the scene
    3. then gauges stand as they were scraped after the mend, until each alert must have cleared; only the calls that
       are orphaned are gone when their records have expired
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.fleet.day.metrics import Scrape, Target
from tests.helm.promql import promtool, selectors
from tests.helm.runbook import ROOT

RULES = ROOT / "helm" / "framehold" / "alerts" / "framehold.yaml"
BEFORE, HELD, AFTER = 2, 13, 45
"""Minutes. No rule looks farther back than AFTER, or waits for longer than HELD."""
RECORDS = 16
"""Minutes for which the record of a call is kept, by the default settings."""
_STEP = 30
"""Seconds between two samples, as between two scrapes."""
_FIRING = 'group by (alertname, tool, instance) (ALERTS{alertstate="firing",alertname!~"%s"})'
_COUNTERS = ("_total", "_bucket", "_count", "_sum")

Series = dict[str, float]


class Alert(NamedTuple):
    """An alert that fires, and the tool or the process that it names."""

    name: str
    tool: str = ""
    instance: str = ""

    @property
    def labels(self) -> str:
        """As promtool writes them."""
        named = {"alertname": f"Framehold{self.name}", "instance": self.instance, "tool": self.tool}
        written = ", ".join(f'{label}="{value}"' for label, value in named.items() if value)
        return f"{{{written}}}"


class Scene(NamedTuple):
    """The three scrapes of a scene, and whether its state lasts."""

    before: Scrape
    during: Scrape
    after: Scrape
    lasts: bool


def wrong(scene: Scene, wanted: Iterable[Alert], besides: Iterable[str], folder: Path) -> str:
    """What promtool finds where not just the `wanted` alerts fire during the scene, or some fire after it; empty if all
    is so. The alerts named `besides` may fire during the scene."""
    others = _FIRING % "|".join(f"Framehold{name}" for name in besides)
    fire = [{"labels": alert.labels, "value": 1} for alert in sorted(wanted)]
    during = {"expr": others, "eval_time": f"{(BEFORE + HELD) * 60 - _STEP}s", "exp_samples": fire}
    after = {"expr": _FIRING % "", "eval_time": f"{(BEFORE + HELD + AFTER) * 60 - _STEP}s", "exp_samples": []}
    test = {"interval": f"{_STEP}s", "input_series": list(_input(scene)), "promql_expr_test": [during, after]}
    # JSON is YAML.
    file = folder / "alerts.yaml"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": f"{_STEP}s", "tests": [test]}))
    done = promtool("test", "rules", file)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _input(scene: Scene) -> Iterator[dict[str, Any]]:
    before, during, after = (_series(look) for look in scene[:3])
    lasted = scene.during.at - scene.before.at
    for name in sorted(before.keys() | during.keys() | after.keys()):
        values = before.get(name), during.get(name), after.get(name)
        if name.partition("{")[0].endswith(_COUNTERS):
            written = _counter(*values, lasted if scene.lasts else None)
        else:
            written = _gauge(*values, RECORDS if 'state="orphaned"' in name else AFTER)
        yield {"series": name, "values": written}


def _gauge(before: float | None, during: float | None, after: float | None, minutes: int) -> str:
    """The values of a gauge, as promtool writes them. After so many minutes of the last part it is 0."""
    parts = [_held(BEFORE, before, None), _held(HELD, during, before), _held(minutes, after, during)]
    return " ".join(parts if minutes == AFTER else [*parts, _held(AFTER - minutes, 0.0, None)])


def _counter(before: float | None, during: float | None, after: float | None, lasted: float | None) -> str:
    """The values of a counter. `lasted`: the seconds in which it grew, if it goes on growing."""
    held, last = _held(HELD, during, before), during
    if lasted is not None and during is not None:
        start = before if before is not None and before <= during else 0.0
        step = (during - start) / lasted * _STEP
        held, last = f"{start!r}+{step!r}x{_samples(HELD) - 1}", start + step * (_samples(HELD) - 1)
    if after is not None and during is not None and last is not None:
        after = last + (after - during if after >= during else after)
    return " ".join((_held(BEFORE, before, None), held, _held(AFTER, after, during)))


def _samples(minutes: int) -> int:
    return minutes * 60 // _STEP


def _held(minutes: int, value: float | None, last: float | None) -> str:
    """A value for so long; where a process does not answer any more, Prometheus ends its series."""
    count = _samples(minutes) - 1
    if value is not None:
        return f"{value!r}x{count}"
    return f"stale _x{count - 1}" if last is not None else f"_x{count}"


def _series(look: Scrape) -> Series:
    """All series that a rule asks for."""
    found: Series = {}
    for target, page in look.pages.items():
        found[_name("up", {}, target)] = float(page is not None)
        for sample in page or ():
            if sample.name in _ASKED:
                found[_name(sample.name, sample.labels, target)] = sample.value
    return found


def _name(name: str, labels: dict[str, str], target: Target) -> str:
    whole = {**labels, "namespace": "day", "job": target.job, "instance": target.instance}
    return name + "{" + ",".join(f"{label}={json.dumps(value)}" for label, value in sorted(whole.items())) + "}"


def _asked() -> set[str]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {one.name for group in groups for rule in group["rules"] for one in selectors(rule["expr"])}


_ASKED = _asked()
