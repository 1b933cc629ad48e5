"""A list as a file: all of it, however many pages it comes in, and with its filters."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Route

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


LACKS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "leases": ({"missing": ["two"]}, {"missing": ["th,ree", "two"]}, {"missing": ["th,ree", "two"]}, "th,ree, two did"),
    "calls": ({"stale": False}, {"stale": True}, {"stale": True}, "the store can't be read"),
}
"""What each of two pages says it lacks, what the file must say, and the page."""


@pytest.mark.parametrize("kind", ["CSV", "JSON"])
@pytest.mark.parametrize("path", LACKS)
async def test_a_list_that_is_not_whole_is_said_to_be_so(page: Screen, path: str, kind: str) -> None:
    """Whichever of its pages lacks something. CSV has no place for it: then only the page says it."""
    first, second, whole, words = LACKS[path]

    async def answer(route: Route) -> None:
        is_last = "after=" in route.request.url
        lacks = second if is_last else first
        if "format=csv" in route.request.url:
            headers = {} if is_last else {"Link": f'</api/v1/{path}?after=further>; rel="next"'}
            if lacks.get("missing"):
                headers["Missing-Nodes"] = ",".join(quote(name) for name in lacks["missing"])
            headers |= {"Stale": "true"} if lacks.get("stale") else {}
            await route.fulfill(content_type="text/csv", headers=headers, body="call_id\r\n")
        else:
            await route.fulfill(json={"items": [], "total": 0, "next": None if is_last else "further", **lacks})

    await page.page.route(f"**/api/v1/{path}?*", answer)
    await page.open(f"/{path}")
    async with page.page.expect_download() as saved:
        await page.page.get_by_role("button", name=f"as {kind}").click()
    await page.page.get_by_role("group", name="Save").get_by_role("status").filter(has_text=words).wait_for()
    if kind == "JSON":
        result = json.loads(Path(await (await saved.value).path()).read_text("utf-8"))
        assert result == {"items": [], "total": 0, "next": None, **whole}
