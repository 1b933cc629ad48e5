"""A page's parts go between their marks, all of them or none."""

from pathlib import Path

import pytest

from framehold_loadtest import marked_page
from framehold_loadtest.marked_page import END, begin

pytestmark = pytest.mark.load

TEXT = f"before\n{begin('p', 'a')}\nold\n{END}\nafter\n{begin('p', 'b')}\n{END}\n"


def test_a_part_goes_between_its_marks() -> None:
    new = marked_page.written(TEXT, "p", {"a": "| new |", "b": "| other |"})
    assert new == (f"before\n{begin('p', 'a')}\n| new |\n{END}\nafter\n{begin('p', 'b')}\n| other |\n{END}\n")


def test_what_another_program_put_there_stays() -> None:
    text = TEXT + f"{begin('q', 'a')}\nof another\n{END}\n"
    assert marked_page.written(text, "p", {"a": "| new |"}).endswith(f"{begin('q', 'a')}\nof another\n{END}\n")


def test_a_page_that_lacks_one_mark_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    for text in (f"{begin('p', 'a')} and no end", TEXT):
        path.write_text(text)
        with pytest.raises(ValueError, match="nothing was written; put them back"):
            marked_page.fill(path, "p", {"a": "| new |", "missing": "| new |"})
        assert path.read_text() == text


def test_a_filled_page_is_filled_anew(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(TEXT)
    marked_page.fill(path, "p", {"a": "first"})
    marked_page.fill(path, "p", {"a": marked_page.table(["x", "y"], [["1", "2"]])})
    assert path.read_text() == TEXT.replace("old", "| x | y |\n| --- | --- |\n| 1 | 2 |")
