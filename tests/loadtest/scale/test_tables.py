"""The pages on scale show what the program prints, and nothing that is kept by hand."""

from pathlib import Path

import pytest

from framehold_loadtest import table as marks
from framehold_loadtest.scale import __main__ as program
from framehold_loadtest.scale import tables

pytestmark = pytest.mark.load

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "docs" / "measured.md", ROOT / "loadtest" / "reports" / "scale.md")


def test_the_tables_on_the_pages_are_those_that_the_program_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """After a change: `python -m framehold_loadtest.scale --page docs/measured.md --page loadtest/reports/scale.md`,
    and read the words around them."""
    monkeypatch.setattr("sys.argv", ["scale"])
    assert program.main() == 0
    printed = capsys.readouterr().out
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    names = [line.removeprefix("## ") for line in printed.splitlines() if line.startswith("## ")]
    shown = {
        name: text.partition(marks.begin(tables.PROGRAM, name) + "\n")[2].partition("\n" + marks.END)[0]
        for name in names
    }
    assert "".join(f"## {name}\n\n{table}\n\n" for name, table in shown.items()) == printed
    there = marks.names(text, tables.PROGRAM)
    assert sorted(there) == sorted(names), "the pages have marks that the program doesn't know, or one twice"
    assert len(names) > 5
