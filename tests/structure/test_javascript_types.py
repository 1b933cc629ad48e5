"""The types of the dashboard's JavaScript: TypeScript's compiler finds names and properties that are not there.

The files are served as they are written. Types that can't be inferred are in their JSDoc.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conformance import node_cache
from tests.kit.processes import ROOT

pytestmark = pytest.mark.npm

PROJECT = ROOT / "tests" / "dashboard" / "tsconfig.json"
NPM_TIMEOUT = 300.0
"""Seconds in which the compiler is installed."""


def checked(project: Path) -> subprocess.CompletedProcess[str]:
    """What the compiler finds in a project."""
    compiler = node_cache.ensure(NPM_TIMEOUT) / "node_modules" / "typescript" / "bin" / "tsc"
    command = [str(node_cache.NODE), str(compiler), "--project", str(project), "--pretty", "false"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def test_no_name_no_property_and_no_argument_is_wrong() -> None:
    found = checked(PROJECT)
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_wrong_one_is_found(tmp_path: Path) -> None:
    """With the same options: a file with a method that a text has not, and a name that nobody declared."""
    words = ROOT / "router" / "framehold_router" / "dashboard" / "assets" / "lib" / "search.js"
    (tmp_path / "wrong.js").write_text(
        f'import {{ search }} from "{words}";\nexport const wrong = search({{}}).push(1);\nexport const no = nobody;\n'
    )
    (tmp_path / "tsconfig.json").write_text(f'{{"extends": "{PROJECT}", "include": ["wrong.js"]}}')
    found = checked(tmp_path / "tsconfig.json")
    assert "wrong.js(2," in found.stdout and "wrong.js(3," in found.stdout and found.returncode != 0
