"""What report.json may hold: a report that would mislead is refused, and the message names what is wrong."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from framehold_loadtest.report import data

pytestmark = pytest.mark.load

RECORDED = Path(__file__).parents[1] / "recorded"


def test_a_field_that_nobody_reads_is_refused() -> None:
    """A misspelt name would be a value that is silently gone."""
    run = json.loads((RECORDED / "kill.json").read_text())
    run["calls"]["found"] = 1
    with pytest.raises(ValidationError, match="found"):
        data.Scenario.model_validate(run)


def test_a_missing_value_must_say_why() -> None:
    """An empty reason is none."""
    run = json.loads((RECORDED / "tradeoff.json").read_text())
    run["cells"][0]["metrics"]["store_ops"] = {"missing": ""}
    with pytest.raises(ValidationError, match="missing"):
        data.Tradeoff.model_validate(run)
