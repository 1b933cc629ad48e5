"""README.md and the schema say of each value what values.yaml says, and know no others."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from helm.values_table import rows
from tests.helm.chart.render import CHART, CI

pytestmark = pytest.mark.chart

SCRIPT = CHART.parent / "values_table.py"
VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")
SCHEMA = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))


def write(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the script."""
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A chart of which only the three files are there."""
    for name in ("values.yaml", "README.md", "values.schema.json"):
        shutil.copy(CHART / name, tmp_path / name)
    return tmp_path


def test_the_table_and_the_descriptions_are_the_present_ones() -> None:
    checked = write("--check")
    assert checked.returncode == 0, checked.stderr


def test_a_comment_that_changed_reaches_both(copy: Path) -> None:
    (copy / "values.yaml").write_text(VALUES.replace("# Frames on a node.", "# Calls | frames."), encoding="utf-8")
    checked = write("--check", copy)
    assert checked.returncode == 1
    assert "README.md says something else than values.yaml" in checked.stderr
    assert write(copy).returncode == 0
    assert r"| `node.settings.maxParked` | `20000` | Calls \| frames. |" in (copy / "README.md").read_text("utf-8")
    assert '"description": "Calls | frames."' in (copy / "values.schema.json").read_text("utf-8")


def test_the_script_reads_values_as_yaml_does() -> None:
    """Keys, their order and their defaults."""
    assert [(row.path, yaml.safe_load(row.default)) for row in rows(VALUES)] == list(_keys(yaml.safe_load(VALUES)))


def test_the_schema_allows_what_values_yaml_lists_and_little_more() -> None:
    """Beside it: settings that keep their own defaults, and what a chart above this one hands down."""
    only = {path for path in _allowed(SCHEMA) if path not in {row.path for row in rows(VALUES)}}
    assert {path[:-1] for path in only} == {(), ("node", "settings")}
    assert {path for path in only if len(path) == 1} == {("global",), ("enabled",)}


def test_each_text_is_a_description_of_the_schema() -> None:
    """The script passes over what the schema keeps in a definition, which no text may be about."""
    described = {path: output.get("description") for path, output in _allowed(SCHEMA).items()}
    assert {row.path: row.text for row in rows(VALUES) if row.text} == {
        path: text for path, text in described.items() if text and path in {row.path for row in rows(VALUES)}
    }


def test_no_level_takes_what_is_not_listed() -> None:
    """But for what is Kubernetes' own, or named by its users."""
    groups = [SCHEMA, *(text for text in _allowed(SCHEMA).values() if "properties" in text)]
    assert len(groups) > 30
    assert [text for text in groups if text.get("additionalProperties") is not False] == []


def test_the_readme_names_each_file_of_values() -> None:
    readme = (CHART / "README.md").read_text(encoding="utf-8")
    assert {kind for kind in CI if f"](ci/{kind}-values.yaml)" in readme} == set(CI)


_WHOLE = ("requests", "limits", "labels", "podSecurityContext", "securityContext")
"""Maps that are Kubernetes' own, or named by their users."""


def _keys(values: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Each key that stands on a line of its own, with its default; a group has none."""
    for key, value in values.items():
        path = (*above, key)
        # A map that is written on one line is a default.
        if isinstance(value, dict) and value and path[-1] not in _WHOLE:
            yield path, None
            yield from _keys(value, path)
        else:
            yield path, value


def _allowed(schema: dict[str, Any], above: tuple[str, ...] = ()) -> dict[tuple[str, ...], dict[str, Any]]:
    """What the schema lists, by its path; `resources` is Kubernetes' own."""
    found = {}
    for key, text in schema.get("properties", {}).items():
        found[*above, key] = text
        found |= _allowed(text, (*above, key))
    return found
