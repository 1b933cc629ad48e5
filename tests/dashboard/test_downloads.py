"""A list as a file: all of it, however many pages it comes in, and with its filters."""

from __future__ import annotations

import csv
import json

import pytest

from tests.dashboard.crowd import Crowd
from tests.kit.browser import Screen

pytestmark = [pytest.mark.anyio, pytest.mark.browser]


@pytest.mark.parametrize("kind", ["CSV", "JSON"])
async def test_a_filtered_list_is_saved_whole(at_crowd: Screen, many: Crowd, kind: str) -> None:
    """Each call once, those of other tools not among them; the heads of columns once."""
    wanted = {row.call_id for rows in many.rows.values() for row in rows if row.tool == "review"}
    await at_crowd.open("/leases?tool=review")
    async with at_crowd.page.expect_download() as saved:
        await at_crowd.page.get_by_role("button", name=kind, exact=False).first.click()
    download = await saved.value
    assert download.suggested_filename.endswith(f".{kind.lower()}")
    with open(await download.path(), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file)) if kind == "CSV" else json.load(file)["items"]
    assert len(rows) == len(wanted) > 1000
    assert {row["call_id"] for row in rows} == wanted
