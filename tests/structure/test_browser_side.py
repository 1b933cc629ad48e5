"""The dashboard's modules: short, in layers, and nothing of them makes markup of a text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

ASSETS = Path(str(files("framehold_router.dashboard") / "assets"))
BELOW = {"lib": {"lib"}, "parts": {"lib", "parts"}, "pages": {"lib", "parts"}, ".": {"lib", "parts", "pages"}}
"""What a folder's modules may import from."""
LIBRARIES = {"preact", "preact/hooks", "htm", "uplot"}
LINES = 300
_IMPORT = re.compile(r'^(?:import|\} from|export .* from)\b.*?"([^"]+)";', re.MULTILINE)
_MARKUP = re.compile(
    r'innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\sstyle="|\son[a-z]+="'
)
OWN = sorted(path for path in ASSETS.rglob("*.js") if "vendor" not in path.parts)


def wrong(path: Path, text: str) -> Iterator[str]:
    """What in a module is against the rules."""
    folder = path.parent.relative_to(ASSETS)
    if text.count("\n") >= LINES:
        yield f"has {LINES} lines or more"
    for name in _IMPORT.findall(text):
        if not name.startswith("."):
            if name not in LIBRARIES or folder.name == "pages":
                yield f"imports {name}"
        elif (ASSETS / folder / name).resolve().parent.relative_to(ASSETS).as_posix() not in BELOW[folder.as_posix()]:
            yield f"imports {name} from above"
    yield from (f"has {found}" for found in _MARKUP.findall(text))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.relative_to(ASSETS).as_posix())
def test_a_module_keeps_the_rules(path: Path) -> None:
    """Libraries are for lib and parts alone; nothing is imported from above."""
    assert list(wrong(path, path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("lib/a.js", 'import { b } from "../parts/b.js";'),
        ("parts/a.js", 'import b from "../pages/b.js";'),
        ("pages/a.js", 'import uPlot from "uplot";'),
        ("lib/a.js", 'import {\n  b,\n} from "../pages/b.js";'),
        ("lib/a.js", 'import x from "https://elsewhere.example/x.js";'),
        ("parts/a.js", "element.innerHTML = text;"),
        ("parts/a.js", 'html`<p style="color: red">`'),
        ("parts/a.js", "//\n" * LINES),
    ],
)
def test_what_breaks_them_is_found(place: str, text: str) -> None:
    """Each rule, broken on purpose."""
    assert len(list(wrong(ASSETS / place, text))) == 1


def test_modules_are_looked_at() -> None:
    """A folder that moved would keep every rule by being empty."""
    assert {path.parent.relative_to(ASSETS).as_posix() for path in OWN} == set(BELOW)
