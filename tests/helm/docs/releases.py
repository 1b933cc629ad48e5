"""What a `helm` command of the page would make of the chart, and what stands in the cluster by then."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

from tests.helm.chart.golden import over
from tests.helm.chart.render import CHART, Rendered, render
from tests.helm.docs import page
from tests.helm.docs.page import Command, Values
from tests.helm.runbook import ROOT

_FREE = ("settings",)
"""Maps in which a value may stand that has no default there: the schema knows which."""


def server() -> str:
    """The server.py of the README's first page."""
    found = re.search(r"(?ms)^```python\n(.*?)^```$", (ROOT / "README.md").read_text())
    assert found is not None
    return found[1]


def makes_release(command: Command) -> bool:
    """Whether it brings values to the chart."""
    return command.words[0] == "helm" and command.words[1] in ("install", "upgrade", "template")


def values(command: Command) -> Values:
    """What it says by `-f`, `--set` and `--set-file`."""
    assert set(command.options("-f")) <= {"fleet.yaml"}, f"{command}: the page has no such file"
    text = command.file if "-f" in command.words else {}
    for each in command.options("--set"):
        text = over(text, helm_python.parse_set_string(each))
    for each in command.options("--set-file"):
        path, _, file = each.partition("=")
        assert file == "server.py"
        with tempfile.NamedTemporaryFile("w", suffix=".py") as kept:
            kept.write(server())
            kept.flush()
            text = over(text, helm_python.parse_set_file(f"{path}={kept.name}"))
    return text


def rendered(text: Values) -> Rendered:
    """The release of the page, with these values."""
    return _rendered(yaml.safe_dump(text))


@cache
def _rendered(text: str) -> Rendered:
    return render(yaml.safe_load(text), page.RELEASE, page.NAMESPACE)


def unknown(text: Mapping[str, Any]) -> list[str]:
    """Paths of values that values.yaml doesn't have."""
    return list(_unknown(text, yaml.safe_load((CHART / "values.yaml").read_text()), ""))


def _unknown(text: Mapping[str, Any], known: Mapping[str, Any], above: str) -> Iterator[str]:
    for key, value in text.items():
        path = f"{above}{key}"
        if key not in known:
            yield path
        elif isinstance(value, dict) and isinstance(known[key], dict) and known[key] and key not in _FREE:
            yield from _unknown(value, known[key], f"{path}.")


def standing(until: int) -> tuple[Rendered, set[str]]:
    """What the release has made before the page's command number `until`, and names of Secrets made by hand."""
    before = page.commands()[:until]
    secrets = {
        command.words[4] for command in before if command.words[:4] == ("kubectl", "create", "secret", "generic")
    }
    last = next((command for command in reversed(before) if makes_release(command)), None)
    file = page.commands()[min(until, len(page.commands()) - 1)].file
    return rendered(file or (values(last) if last else {})), secrets


def images(made: Rendered) -> set[str]:
    """The images that its pods start."""
    return {
        container["image"]
        for workload in (*made.of("StatefulSet"), *made.of("Deployment"))
        for container in _containers(workload["spec"]["template"]["spec"])
    }


def _containers(pod: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return [*pod.get("initContainers", ()), *pod["containers"]]


def folder(name: str) -> Path:
    """A path of the page, in the clone."""
    return ROOT / name
