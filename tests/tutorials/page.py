"""The blocks of a page of the docs: files to save, commands to run, and what a terminal then shows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One fenced block. `title` is the name of the file that the reader saves it as, else empty."""

    language: str
    title: str
    text: str


def blocks(page: str, section: str = "") -> list[Block]:
    """The blocks of `docs/page`, in their order. With `section`, those below the heading that begins with it, up to
    the next heading of any depth."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    if section:
        found = re.search(
            rf"^#+ {re.escape(section)}.*?\n(.*?)(?=^#+ (?![^\n]*```)|\Z)", text, re.DOTALL | re.MULTILINE
        )
        assert found, f"{page} has no section {section!r}"
        text = found[1]
    return [Block(language, title, body) for language, title, body in _BLOCK.findall(text)]
