"""The page of the documentation that `make day` writes: a row for each scene, and what its cells say."""

from __future__ import annotations

import pytest

from tests.fleet.day import page
from tests.fleet.day.__main__ import PAGE
from tests.fleet.day.night import DAY
from tests.fleet.day.recorder import ALERTS, API, DOCTOR, STATUS, Said
from tests.fleet.day.recorder import PAGE as BOX
from tests.fleet.day.traffic import Figures

pytestmark = [pytest.mark.browser, pytest.mark.chart, pytest.mark.nightly]

SCENE = DAY[0]
MET = Figures(40, 2, 1)


def test_the_page_has_a_row_for_each_scene_in_their_order() -> None:
    text = PAGE.read_text()
    assert list(page.rows(text)) == [scene.name for scene in DAY]
    assert page.page(page.rows(text), [scene.name for scene in DAY]) == text


def test_a_cell_has_the_seconds_of_the_last_voice_or_says_that_one_was_silent_or_wrong() -> None:
    first = {API: 1.0, STATUS: 2.0, DOCTOR: 3.25, BOX: 1.0}
    false = [Said(4.0, BOX, "all | is well")]
    line = page.row(SCENE, first, {API, STATUS, DOCTOR, BOX, ALERTS}, false, MET)
    cells = f"| {SCENE.name} | 3.2 | **wrong** | **silent** | - | 40/1 | "
    assert line.startswith(cells)
    assert "dashboard said after 4.0 s: 'all / is well'" in line
