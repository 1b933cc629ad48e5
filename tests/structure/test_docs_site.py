"""The site of the docs is built without a warning. Its links lead somewhere, and it asks nothing of other servers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import framehold
import framehold.testing

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://github.com/framehold/framehold/"
_LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""What a browser loads by itself, by element; `link` also names pages that it does not load."""
_CSS_URL = re.compile(r"(?:url\(|@import )\s*[\"']?(https?:)?//")


@dataclass
class Page(HTMLParser):
    """The links of one built page, what its browser loads, and the places that a link may lead to."""

    path: Path
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if found.get(_LOADED.get(tag, "")) and found.get("rel") not in ("canonical", "prev", "next"):
            self.loaded.append(found[_LOADED[tag]])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Page]:
    """The pages of the built site by their files."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return {path: Page(path) for path in folder.rglob("*.html")}


def test_each_link_leads_to_a_page_and_a_place(site: dict[Path, Page]) -> None:
    assert len(site) > 50
    dead = []
    for path, page in site.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or path.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            places = site[target].places if target in site else set()
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in places):
                dead.append(f"{path.name}: {link}")
    assert dead == []


def test_a_link_out_of_the_docs_leads_to_a_file_of_the_repository(site: dict[Path, Page]) -> None:
    links = {link for page in site.values() for link in page.links if link.startswith(REPOSITORY)}
    files = {urlsplit(link).path.split("/main/", 1)[1] for link in links if "/main/" in link}
    assert "examples/haproxy.cfg" in files
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []


def test_a_browser_loads_nothing_from_elsewhere(site: dict[Path, Page]) -> None:
    """Neither a font nor a script nor a picture."""
    assert any(page.loaded for page in site.values())
    assert [item for page in site.values() for item in page.loaded if item.startswith(("http", "//"))] == []
    [root] = [path.parent for path in site if path.name == "404.html"]
    styles = list(root.rglob("*.css"))
    assert styles and [file.name for file in styles if _CSS_URL.search(file.read_text(encoding="utf-8"))] == []


def test_each_public_name_is_in_the_reference(site: dict[Path, Page]) -> None:
    """With its own place, which is made of its docstring."""
    [reference] = [page for path, page in site.items() if path.name == "reference.html"]
    public = {f"framehold.{name}" for name in framehold.__all__ if name != "__version__"}
    public |= {f"framehold.testing.{name}" for name in framehold.testing.__all__}
    assert public - reference.places == set()
