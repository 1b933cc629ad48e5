"""Which schedules of one tree were played, added up over runs: more than one day has time for.

They are a range of seeds, beside a digest of all modules that a schedule runs. When one of these changes, the range
begins anew: a schedule proves something of the code that it ran. Comments and docstrings are no code.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from pathlib import Path

from tests.kit.processes import ROOT

BEGIN = 1_000_000
"""The first seed: those below are played by commits and by hand."""


class _NoDocstrings(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


def _code(file: str) -> bytes:
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return ast.dump(_NoDocstrings().visit(tree)).encode()


def digest() -> str:
    """A digest of the code of the modules of this repository that this process has imported."""
    found, folder = hashlib.blake2b(digest_size=8), f"{ROOT}/"
    files = {str(getattr(module, "__file__", "")) for module in tuple(sys.modules.values())}
    for file in sorted(file for file in files if file.startswith(folder) and "/site-packages/" not in file):
        found.update(file.removeprefix(folder).encode() + _code(file))
    return found.hexdigest()


class Played:
    """The range in `file`. It is made when all modules of a schedule are imported."""

    def __init__(self, file: Path) -> None:
        self._file, self._digest = file, digest()
        kept = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        self.end: int = kept["end"] if kept.get("digest") == self._digest else BEGIN
        """The seed behind the range."""

    def add(self, count: int) -> int:
        """Keep that so many schedules behind the range were clean. Returns how many there are now."""
        self.end += count
        text = json.dumps({"digest": self._digest, "begin": BEGIN, "end": self.end})
        self._file.write_text(f"{text}\n", encoding="utf-8")
        return self.end - BEGIN
