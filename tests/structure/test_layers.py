"""The contracts of import-linter in pyproject.toml see what they are for: a wrong import turns them red."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.rooms import ROOMS, ROOT

LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def linted(root: Path) -> subprocess.CompletedProcess[str]:
    """What import-linter says of the packages below `root`, by the contracts of this repository."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(root / folder.name) for folder in ROOMS.values())}
    command = [sys.executable, "-c", LINT, "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    return subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The packages, where a test may break them."""
    for folder in ROOMS.values():
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("__pycache__", "assets"))
    return tmp_path


def test_the_layers_hold() -> None:
    """Imports point down only, between rooms and between the packages of a room, and there is no circle."""
    found = linted(ROOT)
    assert found.returncode == 0, found.stdout


WRONG = [
    ("store/framehold_store/keys.py", "import framehold_router.config", "rooms:"),
    ("node/framehold/frame/span.py", "from ..engine import table", "node:"),
    ("node/framehold/sdk/hop.py", "def f():\n    from ..http import body", "node:"),
    ("router/framehold_router/collect/history.py", "from .. import pages", "router:"),
    ("node/framehold/admin/api.py", "import framehold_router.config", "rooms:"),
    ("router/framehold_router/pages.py", "import framehold.config", "rooms:"),
    ("node/framehold/http/app.py", "import framehold_cli.options", "rooms:"),
    ("fleet/framehold_fleet/members/ring.py", "from ..http_client import upstream", "fleet:"),
    ("cli/framehold_cli/show/voice.py", "from ..client import api", "cli:"),
    ("fleet/framehold_fleet/limits.py", "import framehold_router.config", "rooms:"),
    ("loadtest/framehold_loadtest/config.py", "from . import cli", "no circles"),
    ("core/framehold_core/ids.py", "import time", "core:"),
    ("node/framehold/engine/table.py", "import starlette", "code, frame and engine:"),
]
"""A file, a line that it may not have, and the contract that it breaks."""


def test_every_wrong_import_is_seen(copy: Path) -> None:
    """Each contract is broken, and each line is named; a new package must be given its floor."""
    (copy / "node/framehold/attic").mkdir()
    (copy / "node/framehold/attic/__init__.py").write_text("")
    for file, line, _ in WRONG:
        path = copy / file
        path.write_text(f"{path.read_text()}\n\n{line}\n")
    found = linted(copy)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "attic" in found.stdout
    broken = [text for text in found.stdout.splitlines() if "BROKEN" in text]
    for file, line, contract in WRONG:
        module = ".".join(Path(file).with_suffix("").parts[1:])
        assert any(text.startswith(contract) for text in broken), found.stdout
        assert contract == "no circles" or f"{module} -> " in found.stdout, line
