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


def test_a_field_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    """A misspelt name would be a value that is silently gone."""
    run = json.loads((RECORDED / "kill.json").read_text())
    run["effects"]["thrice"] = 1
    with pytest.raises(ValidationError, match="thrice"):
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
