"""`make house`: how large the repository is, beside its aims, and how much it has grown since a tag or commit.

Each figure is counted from the files of one tree, so that two trees are counted alike. The earlier tree is that of the
last tag, unless another one is named; where there is none, nothing is compared.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.structure.rooms import ROOMS, ROOT

KINDS = (".py", ".lua", ".js", ".html", ".css", ".tpl")
"""The kinds of files whose lines are counted."""
_SHIPPED = [folder.name for package, folder in ROOMS.items() if package != "framehold_loadtest"]
_COMPLEX = ["core", "store", "fleet", "router", "node"]
_THIRD_PARTY = "dashboard/assets/vendor"

Count = Callable[[Path], int]


def files(tree: Path, *folders: str, kinds: tuple[str, ...] = KINDS) -> Iterator[Path]:
    """The files below the folders of a tree, but for those of others."""
    for folder in folders:
        for path in sorted((tree / folder).rglob("*")):
            hidden = any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(tree).parts)
            if path.suffix in kinds and path.is_file() and not hidden and _THIRD_PARTY not in path.as_posix():
                yield path


def lines(*folders: str, kinds: tuple[str, ...] = KINDS) -> Count:
    """Counts the lines of all files below these folders."""

    def count(tree: Path) -> int:
        return sum(len(path.read_text("utf-8").splitlines()) for path in files(tree, *folders, kinds=kinds))

    return count


def words(tree: Path) -> int:
    """The words of README and docs, without decisions."""
    paths = [tree / "README.md", *files(tree, "docs", kinds=(".md",))]
    return sum(
        len(path.read_text("utf-8").split()) for path in paths if path.is_file() and "decisions" not in path.parts
    )


def classes(tree: Path) -> Iterator[ast.ClassDef]:
    """Each class of what is shipped, but for loadtest."""
    for path in files(tree, *_SHIPPED, kinds=(".py",)):
        yield from (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef))


def protocols(tree: Path) -> int:
    """The classes that are `typing.Protocol`s."""
    return sum(any(ast.unparse(base) == "Protocol" for base in each.bases) for each in classes(tree))


def ambiguous(tree: Path) -> list[str]:
    """The names that two or more classes have."""
    return [name for name, count in Counter(each.name for each in classes(tree)).items() if count > 1]


def complexity(tree: Path) -> int:
    """The largest cyclomatic complexity of a function, as ruff's C901 counts it."""
    folders = [str(tree / folder) for folder in _COMPLEX if (tree / folder).is_dir()]
    options = ["--isolated", "--select", "C901", "--config", "lint.mccabe.max-complexity=5", "--output-format", "json"]
    found = subprocess.run(
        [sys.executable, "-m", "ruff", "check", *options, *folders], capture_output=True, text=True, check=False
    )
    return max((int(each["message"].split("(")[1].split()[0]) for each in json.loads(found.stdout)), default=5)


ROWS: tuple[tuple[str, Count, int | None], ...] = (
    *((f"lines of {folder.name}", lines(folder.name), None) for folder in ROOMS.values()),
    ("Python of node/framehold", lines("node/framehold", kinds=(".py",)), 18_000),
    ("shipped Python without loadtest", lines(*_SHIPPED, kinds=(".py",)), 43_000),
    ("shipped Python in all", lines(*_SHIPPED, "loadtest", kinds=(".py",)), 52_000),
    ("Python of loadtest", lines("loadtest", kinds=(".py",)), 8_500),
    ("Python of tests", lines("tests", kinds=(".py",)), 78_000),
    ("lines of the chart", lines("helm", kinds=(".yaml", ".tpl")), None),
    ("words of README and docs, without decisions", words, 60_000),
    ("Protocols", protocols, 15),
    ("class names with two meanings", lambda tree: len(ambiguous(tree)), 0),
    ("largest complexity of a function", complexity, 14),
)
"""What is counted, how, and the most that it shall be."""


def table(now: Path, before: Path | None, since: str) -> str:
    """The figures of one tree, beside those of an earlier one."""
    head = ("what", "now", *((since, "growth") if before else ()), "aim")
    rows = [head]
    for name, count, aim in ROWS:
        value = count(now)
        was = [count(before)] if before else []
        growth = [f"{each:,}" for each in was] + [f"{value - each:+,}" for each in was]
        rows.append(
            (name, f"{value:,}", *growth, "" if aim is None else f"{aim:,}" + (", met" if value <= aim else ""))
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) if not column else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in rows)
    )


def _last_tag() -> str:
    found = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return found.stdout.strip()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="make house", description=__doc__)
    parser.add_argument("--since", default=_last_tag(), help="a tag or commit to compare with")
    since = parser.parse_args().since
    if not since:
        print(table(ROOT, None, ""))
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "tree.tar"
        subprocess.run(["git", "archive", "--output", str(archive), since], cwd=ROOT, check=True)
        with tarfile.open(archive) as packed:
            packed.extractall(Path(folder) / "tree", filter="data")
        print(table(ROOT, Path(folder) / "tree", since))


if __name__ == "__main__":
    main()
