"""The options run by a path from any folder, and by name from their own, without the clone's root being importable."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "options"
FILES = sorted(str(path) for path in FOLDER.glob("*.py") if path.stem not in ("weather", "measure"))
BY_PATH = "import sys; from framehold_cli.serve.target import load; [load(path) for path in sys.argv[1:]]"
BY_NAME = "import sys; sys.path.insert(0, sys.argv[1]); import option_h, measure; option_h.app, measure.made"


@pytest.mark.parametrize("code", [(BY_PATH, *FILES), (BY_NAME, str(FOLDER))], ids=["by path", "by name"])
def test_each_option_is_found_from_anywhere(code: tuple[str, ...], tmp_path: Path) -> None:
    """As `framehold stdio /path/to/option_h.py` and `uvicorn --app-dir examples/options option_h:app` import it."""
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", *code], cwd=tmp_path, env=plain, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(FILES) == 10
