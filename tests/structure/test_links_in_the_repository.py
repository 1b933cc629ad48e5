"""Links between Markdown files hold in the repository: the file is there, and the heading too."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_PLACE = re.compile(r"<a (?:id|name)=\"([^\"]+)\"")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_FOLDERS = ("cli", "core", "docs", "examples", "fleet", "helm", "loadtest", "node", "router", "store")
PAGES = sorted([*ROOT.glob("*.md"), *(page for folder in _FOLDERS for page in (ROOT / folder).rglob("*.md"))])


@cache
def places(page: Path) -> frozenset[str]:
    """The anchors of a page: those written in it, and those of its headings by the rule of GitHub."""
    seen: Counter[str] = Counter()
    prose = _FENCED.sub("", page.read_text(encoding="utf-8"))
    found = set(_PLACE.findall(prose))
    for heading in _HEADING.findall(prose):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_each_link_leads_somewhere(page: Path) -> None:
    dead = []
    for link in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        path, _, place = link.partition("#")
        if re.match(r"[a-z]+:", link):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (place and target.suffix == ".md" and place not in places(target)):
            dead.append(link)
    assert dead == []
