"""The runbook, as tests read it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "runbook.md"


def headings(page: Path) -> list[tuple[int, str]]:
    """Depth and text of each heading that is not within a block of code."""
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text())
    return [(len(marks), title.strip()) for marks, title in re.findall(r"(?m)^(#+) (.*)$", text)]


def anchors(page: Path) -> set[str]:
    """What a link to a heading may name, made of it as GitHub does."""
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for _, title in headings(page)}
