"""What report.json may hold: a report that would mislead is refused, and the message names what is wrong."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from framehold_loadtest.report import data

pytestmark = pytest.mark.load

RECORDED = Path(__file__).parents[1] / "recorded"


def test_a_file_is_read_as_what_its_kind_says() -> None:
    """One reader for both."""
    kinds = {path.stem: type(data.read(path)) for path in RECORDED.glob("*.json")}
    assert kinds == {"kill": data.Scenario, "steady": data.Scenario, "tradeoff": data.Tradeoff}


def test_a_series_of_another_length_is_refused(tmp_path: Path) -> None:
    """Its values would stand at the wrong seconds."""
    run = json.loads((RECORDED / "kill.json").read_text())
    run["series"]["parked"]["node-1"].pop()
    with pytest.raises(ValidationError, match="series parked of node-1 has 59 values, t has 60"):
        data.read(saved(tmp_path, run))


def test_a_field_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    """A misspelt name would be a value that is silently gone."""
    run = json.loads((RECORDED / "kill.json").read_text())
    run["effects"]["thrice"] = 1
    with pytest.raises(ValidationError, match="thrice"):
        data.read(saved(tmp_path, run))


def test_a_cell_of_an_unknown_option_is_refused(tmp_path: Path) -> None:
    """It would be in no table."""
    run = json.loads((RECORDED / "tradeoff.json").read_text())
    run["cells"][0]["option"] = "Z"
    with pytest.raises(ValidationError, match="a cell is of Z under steady, which the report does not list"):
        data.read(saved(tmp_path, run))


def test_a_pair_that_was_measured_twice_is_refused(tmp_path: Path) -> None:
    """One of the two would be hidden."""
    run = json.loads((RECORDED / "tradeoff.json").read_text())
    run["cells"].append(run["cells"][0])
    with pytest.raises(ValidationError, match="H-hold under steady has more than one cell"):
        data.read(saved(tmp_path, run))


def test_a_metric_in_two_units_is_refused(tmp_path: Path) -> None:
    """Seconds would win against milliseconds."""
    run = json.loads((RECORDED / "tradeoff.json").read_text())
    run["cells"][1]["metrics"]["p50_ms_round_1"]["unit"] = "s"
    with pytest.raises(ValidationError, match="p50_ms_round_1 is in ms in one cell and in s in another"):
        data.read(saved(tmp_path, run))


def test_a_missing_value_must_say_why(tmp_path: Path) -> None:
    """An empty reason is none."""
    run = json.loads((RECORDED / "tradeoff.json").read_text())
    run["cells"][0]["metrics"]["store_ops"] = {"missing": ""}
    with pytest.raises(ValidationError, match="missing"):
        data.read(saved(tmp_path, run))


def saved(folder: Path, run: object) -> Path:
    path = folder / "report.json"
    path.write_text(json.dumps(run))
    return path
