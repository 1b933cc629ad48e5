"""The parts of pages go between their marks, all of them or none."""

import re
from pathlib import Path

import pytest

from framehold_loadtest import table
from framehold_loadtest.table import END, begin

pytestmark = pytest.mark.load

TEXT = f"before\n{begin('p', 'a')}\nold\n{END}\nafter\n{begin('p', 'b')}\n{END}\n"


def test_a_part_goes_between_its_marks() -> None:
    new = table.written(TEXT, "p", {"a": "| new |", "b": "| other |"})
    assert new == (f"before\n{begin('p', 'a')}\n| new |\n{END}\nafter\n{begin('p', 'b')}\n| other |\n{END}\n")


def test_what_another_program_put_there_stays() -> None:
    text = TEXT + f"{begin('q', 'a')}\nof another\n{END}\n"
    assert table.written(text, "p", {"a": "", "b": ""}).endswith(f"{begin('q', 'a')}\nof another\n{END}\n")


def test_a_page_gets_the_parts_that_it_has_marks_for(tmp_path: Path) -> None:
    """So that one run fills several pages."""
    pages = [tmp_path / name for name in ("a.md", "b.md")]
    for page in pages:
        page.write_text(f"{begin('p', page.stem)}\n{END}\n{begin('p', 'both')}\n{END}\n")
    table.fill(pages, "p", {"a": "of a", "b": "of b", "both": "of both"})
    for page in pages:
        assert page.read_text() == (
            f"{begin('p', page.stem)}\nof {page.stem}\n{END}\n{begin('p', 'both')}\nof both\n{END}\n"
        )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("no mark at all", f"no mark such as '{begin('p', 'a')}'"),
        (begin("q", "a") + END, f"no mark such as '{begin('p', 'a')}'"),
        (f"{begin('p', 'a')} and no end", f"lacks '{END}' behind '{begin('p', 'a')}'"),
        (TEXT + begin("p", "older") + END, f"nothing fills '{begin('p', 'older')}'"),
    ],
)
def test_pages_of_which_one_cannot_be_filled_stay_as_they_are(tmp_path: Path, text: str, why: str) -> None:
    good, bad = tmp_path / "good.md", tmp_path / "bad.md"
    good.write_text(TEXT)
    bad.write_text(text)
    with pytest.raises(ValueError, match=f"{re.escape(why)}.*; nothing was written; "):
        table.fill([good, bad], "p", {"a": "| new |", "b": "| new |"})
    assert (good.read_text(), bad.read_text()) == (TEXT, text)


def test_a_filled_page_is_filled_anew(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(TEXT)
    table.fill([path], "p", {"a": "first", "b": ""})
    table.fill([path], "p", {"a": table.markdown(["x", "y"], [["1", "2"]]), "b": "| other |"})
    new = TEXT.replace("old", "| x | y |\n| --- | --- |\n| 1 | 2 |")
    assert path.read_text() == new.replace(f"{begin('p', 'b')}\n", f"{begin('p', 'b')}\n| other |\n")
