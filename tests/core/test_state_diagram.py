"""The diagram in `docs/architecture.md` is the table's, and the check notices when it isn't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPT, PAGE = ROOT / "docs" / "state_diagram.py", ROOT / "docs" / "architecture.md"


def draw(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the script."""
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_the_diagram_of_the_architecture_page_is_the_present_one() -> None:
    checked = draw("--check")
    assert checked.returncode == 0, checked.stderr


def test_a_diagram_that_drifted_is_noticed_and_drawn_anew(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    page = tmp_path / "page.md"
    page.write_text(text.replace("    IDLE --> RUNNING: Start\n", ""), encoding="utf-8")
    checked = draw("--check", page)
    assert checked.returncode == 1 and "run state_diagram.py --write" in checked.stderr
    assert draw("--write", page).returncode == 0
    assert page.read_text(encoding="utf-8") == text
