"""`docs/troubleshooting.md` quotes messages that the code really says.

A heading of the third level is a message in code quotes; `...` in it stands for what differs. Its parts must follow
each other in one text of the source: of these packages, or of the SDK, whose messages authors see too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mcp.server
import pytest

from tests.structure.rooms import FRAMEHOLD, ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
PACKAGES = (*FRAMEHOLD.values(), Path(mcp.server.__file__).parent)
MESSAGES = re.findall(r"(?m)^### `(.+)`$", PAGE.read_text(encoding="utf-8"))
_DIFFERS = "\0"
_FORMAT = re.compile(r"%(?:\.\d+)?[a-z]|\{[^{}]*\}")


def texts(tree: ast.Module) -> Iterator[str]:
    """The texts of a module, with a mark in the place of each value that is put into them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else _DIFFERS for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield _FORMAT.sub(_DIFFERS, node.value)


@cache
def known() -> str:
    """All texts of the packages."""
    files = (file for package in PACKAGES for file in sorted(package.rglob("*.py")))
    return "\n\n".join(text for file in files for text in texts(ast.parse(file.read_text(encoding="utf-8"))))


def is_said(message: str) -> bool:
    """Whether the parts of a message follow each other, in one text of the source, with a value between them."""
    parts = [re.escape(part.strip()) for part in message.split("...") if part.strip()]
    return re.search(r"[^\n]{0,20}\0[^\n\0]{0,20}".join(parts), known()) is not None


@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_of_the_page_is_in_the_code(message: str) -> None:
    assert is_said(message)


def test_a_message_that_nothing_says_is_noticed() -> None:
    assert len(MESSAGES) > 25
    assert not is_said("the moon stood for ... s in ...")
    assert not is_said("the event loop stood for a while")
