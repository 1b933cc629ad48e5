"""Writes what values.yaml says of each value into the table of README.md and the descriptions of values.schema.json.

    python helm/values_table.py              put the present texts into both
    python helm/values_table.py --check      exit 1 where they are not the present ones

A value's text is the comment right above its key. What only the schema lists keeps the description that it has.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

CHART = Path(__file__).with_name("framehold")
BEGIN = "<!-- begin: written by helm/values_table.py -->"
END = "<!-- end: written by helm/values_table.py -->"
_KEY = re.compile(r"(?P<indent> *)(?P<key>\w+):(?: (?P<default>.+))?")


class Row(NamedTuple):
    """A key of values.yaml, its default as written there (empty where more keys follow), and its comment."""

    path: tuple[str, ...]
    default: str
    text: str


def rows(values: str) -> Iterator[Row]:
    """The keys of values.yaml, in its order."""
    path: tuple[str, ...] = ()
    said: list[str] = []
    for line in values.splitlines():
        if found := _KEY.fullmatch(line):
            path = (*path[: len(found["indent"]) // 2], found["key"])
            yield Row(path, found["default"] or "", " ".join(said))
        said = [*said, line.strip(" #")] if line.lstrip().startswith("#") else []


def table(keys: list[Row]) -> str:
    """A row for each value, and for each group that has a text."""
    lines = ["| Value | Default | |", "| --- | --- | --- |"]
    for row in keys:
        if row.default or row.text:
            cells = f"`{'.'.join(row.path)}`", row.default and f"`{row.default}`", row.text.replace("|", "\\|")
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tabled(readme: str, keys: list[Row]) -> str:
    """README.md with the present table between its marks, or at its end."""
    head, _, rest = readme.partition(BEGIN)
    return f"{head}{BEGIN}\n\n{table(keys)}\n\n{END}{rest.partition(END)[2]}"


def described(schema: str, keys: list[Row]) -> str:
    """values.schema.json with the present descriptions."""
    whole = json.loads(schema)
    for row in keys:
        spot = whole
        for key in row.path:
            spot = spot.get("properties", {}).get(key, {})
        rest = {key: value for key, value in spot.items() if key != "description"}
        spot.clear()
        spot.update({"description": row.text} if row.text else {}, **rest)
    return laid_out(whole) + "\n"


def laid_out(value: Any, indent: int = 0) -> str:
    """JSON in which whatever is short stands on one line."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) or indent + len(line) <= 100:
        return line
    inner = (f"{' ' * (indent + 2)}{json.dumps(key)}: {laid_out(of, indent + 2)}" for key, of in value.items())
    return "{\n" + ",\n".join(inner) + f"\n{' ' * indent}}}"


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Write the texts of values.yaml into README.md and the schema.")
    parser.add_argument("--check", action="store_true", help="exit 1 where they are not the present ones")
    parser.add_argument("chart", nargs="?", type=Path, default=CHART)
    wanted = parser.parse_args()
    keys = list(rows((wanted.chart / "values.yaml").read_text(encoding="utf-8")))
    for page, present in ((wanted.chart / "README.md", tabled), (wanted.chart / "values.schema.json", described)):
        new = present(text := page.read_text(encoding="utf-8"), keys)
        if not wanted.check:
            page.write_text(new, encoding="utf-8")
        elif text != new:
            parser.exit(1, f"{page.name} says something else than values.yaml; run helm/values_table.py\n")


if __name__ == "__main__":
    main()
