"""`GET tradeoff`: the report that a run wrote, as it is; and what is said where none is there, or none can be read."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from framehold_loadtest.report.data import Tradeoff
from framehold_router.api import tradeoff
from framehold_router.models.tradeoff import TradeoffView
from tests.router.cast import RECORDED, Cast, Client, cast_of, get

pytestmark = [pytest.mark.anyio, pytest.mark.load]

MAKE = "run `framehold bench tradeoff --out DIR`, and start this router with FRAMEHOLD_TRADEOFF_REPORT=DIR/report.json"


@pytest.fixture
async def cast() -> AsyncIterator[Cast]:
    async with cast_of() as it:
        yield it


@pytest.fixture
def file(tmp_path: Path, cast: Cast) -> Path:
    """Where this router looks for a report."""
    place = tmp_path / "report.json"
    cast.more["report"] = str(place)
    return place


def small(**other: Any) -> dict[str, Any]:
    """A report of one cell."""
    metrics = {"calls_lost": {"value": 2, "unit": "calls"}, "seconds_to_recover": {"missing": "nothing fails"}}
    cell = {"option": "E", "condition": "steady", "metrics": metrics}
    head = {"kind": "tradeoff", "machine": {"cores": "2"}, "commit": "c", "started": "s", "command": "x"}
    return {**head, "options": ["E"], "conditions": ["steady"], "cells": [cell], **other}


async def told(client: Client, status: int = 200, query: str = "") -> Any:
    return await get(client, f"/api/v1/tradeoff{query}", status)


async def test_the_report_is_returned_as_it_is(cast: Cast, file: Path) -> None:
    """Each field and each cell; what a newer release adds is left out, and what an older one lacks is null."""
    written = Tradeoff.model_validate_json(RECORDED.read_bytes())
    report = json.loads(written.model_dump_json(exclude={"series", "idle"}))
    file.write_text(json.dumps({**json.loads(RECORDED.read_bytes()), "more": "of a newer release"}))
    assert await told(await cast.client()) == report


async def test_a_number_of_the_machine_is_a_text(cast: Cast, file: Path) -> None:
    file.write_text(json.dumps(small(machine={"cores": 2})))
    assert (await told(await cast.client()))["machine"] == {"cores": "2"}


async def test_without_a_report_it_is_said_how_to_make_one(cast: Cast) -> None:
    assert await told(await cast.client(), 404) == {"error": f"no report is configured: {MAKE}"}


async def test_a_report_that_is_not_there_is_said_to_be_missing(cast: Cast, file: Path) -> None:
    """The error does not show the path of the file; the report is shown once it is there."""
    client = await cast.client()
    wanted = {"error": f"the report that FRAMEHOLD_TRADEOFF_REPORT names is not there: {MAKE}"}
    assert await told(client, 404) == wanted
    file.write_text(json.dumps(small()))
    assert (await told(client))["commit"] == "c"
    file.unlink()
    assert await told(client, 404) == wanted


async def test_it_is_read_again_when_it_is_another_one_and_only_then(
    cast: Cast, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that was overwritten or replaced is read again, also if its length is unchanged."""
    read, times = tradeoff._read, [0]

    def counted(*of: Any) -> Any:
        times[0] += 1
        return read(*of)

    monkeypatch.setattr(tradeoff, "_read", counted)
    client = await cast.client()
    file.write_text(json.dumps(small(commit="one")))
    assert [(await told(client))["commit"] for _ in range(3)] == ["one"] * 3 and times == [1]
    file.write_text(json.dumps(small(commit="longer")))
    assert (await told(client))["commit"] == "longer"
    other = file.with_suffix(".new")
    other.write_text(json.dumps(small(commit="lodger")))
    os.utime(other, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns))
    other.replace(file)
    assert (await told(client))["commit"] == "lodger" and times == [3]
    file.write_text("{")
    assert [await told(client, 503) for _ in range(2)] and times == [4]


CELL = small()["cells"][0]
WRONG = {
    "no JSON": ("<html>", "Invalid JSON: expected value at line 1 column 1"),
    "half of it": (json.dumps(small())[:50], "Invalid JSON: EOF while parsing"),
    "empty": ("", "Invalid JSON: EOF"),
    "deep": ("[" * 100_000, "Invalid JSON: recursion limit exceeded"),
    "half of a surrogate pair": ('{"kind": "\ud800"}'.encode("ascii", "backslashreplace").decode(), "Invalid JSON"),
    "no object": ("[]", "Input should be an object"),
    "of a scenario": (json.dumps(small(kind="scenario")), "kind: Input should be 'tradeoff'"),
    "no options": (json.dumps({**small(), "options": None}), "options: Input should be a valid array"),
    "no cells": (json.dumps({**small(), "cells": {}}), "cells: Input should be a valid array"),
    "a cell without metrics": (json.dumps(small(cells=[{**CELL, "metrics": 5}])), "cells.0.metrics: "),
    "a metric that says nothing": (json.dumps(small(cells=[{**CELL, "metrics": {"a": {}}}])), "cells.0.metrics.a."),
    "a value that is none": (
        json.dumps(small(cells=[{**CELL, "metrics": {"a": {"value": float("inf"), "unit": "s"}}}])),
        "cells.0.metrics.a.MeasuredView.value: Input should be a finite number",
    ),
}


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_no_report_is_refused_by_what_is_wrong(cast: Cast, file: Path, name: str) -> None:
    text, why = WRONG[name]
    file.write_text(text)
    output = (await told(await cast.client(), 503))["error"]
    assert output.startswith(f"the file that FRAMEHOLD_TRADEOFF_REPORT names is no report of the trade-off ({why}")
    assert output.endswith("): nothing was returned; name a report.json of `framehold bench tradeoff`")


async def test_nothing_that_a_wrong_file_holds_is_told(cast: Cast, file: Path) -> None:
    """If the setting names a file of secrets by mistake, nothing of it is published."""
    file.write_text(json.dumps(small(kind="hunter2", commit=["hunter2"])))
    assert "hunter2" not in (await told(await cast.client(), 503))["error"]
    file.write_text("FRAMEHOLD_KEYS=hunter2")
    assert "hunter2" not in (await told(await cast.client(), 503))["error"]


async def test_a_report_that_is_too_long_is_not_read_to_its_end(cast: Cast, file: Path) -> None:
    """The error names the limit; a report up to the limit is shown."""
    client = await cast.client()
    text = json.dumps(small())
    file.write_text(text + " " * (tradeoff.MAX_REPORT_BYTES - len(text)))
    assert (await told(client))["commit"] == "c"
    file.write_text(text + " " * (tradeoff.MAX_REPORT_BYTES - len(text) + 1))
    assert f"is beyond {tradeoff.MAX_REPORT_BYTES} bytes: nothing was returned" in (await told(client, 503))["error"]


async def test_what_is_no_plain_file_is_not_waited_for(cast: Cast, file: Path) -> None:
    """A pipe that nobody writes to, a device without an end, a folder."""
    os.mkfifo(file)
    for place in (file, Path("/dev/zero"), file.parent):
        cast.more["report"] = str(place)
        async with asyncio.timeout(5):
            assert "can't be read (it is no plain file)" in (await told(await cast.client(), 503))["error"]


async def test_what_can_not_be_opened_is_said_not_to_be(
    cast: Cast, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any) -> Any:
        raise PermissionError(13, "Permission denied", "/secret/place")

    file.write_text(json.dumps(small()))
    monkeypatch.setattr(tradeoff, "_read", refused)
    text = (await told(await cast.client(), 503))["error"]
    assert "can't be read (Permission denied): nothing was returned" in text and "secret" not in text


async def test_the_admin_token_is_wanted_where_one_is_set(cast: Cast, file: Path) -> None:
    cast.token = "correct-horse-battery-staple"
    file.write_text(json.dumps(small()))
    client = await cast.client()
    assert "nothing was returned" in (await told(client, 401))["error"]
    shown = {"Authorization": f"Bearer {cast.token}"}
    assert (await get(client, "/api/v1/tradeoff", 200, **shown))["commit"] == "c"


async def test_the_loop_goes_on_while_a_disk_hangs(cast: Cast, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And however many ask meanwhile, it holds one thread."""
    began, free, held = threading.Event(), threading.Event(), [0]
    look = os.stat

    def hang(path: Any, *more: Any, **other: Any) -> Any:
        if str(path) == str(file):
            held[0] += 1
            began.set()
            free.wait(10)
        return look(path, *more, **other)

    file.write_text(json.dumps(small()))
    monkeypatch.setattr(os, "stat", hang)
    client = await cast.client()
    asking = [asyncio.ensure_future(told(client)) for _ in range(20)]
    try:
        async with asyncio.timeout(5):
            assert await asyncio.to_thread(began.wait, 5)
            for _ in range(5):
                assert "ring" in str(await get(client, "/api/v1/openapi.json"))
        assert held[0] == 1 and not any(one.done() for one in asking)
    finally:
        free.set()
    assert [one["commit"] for one in await asyncio.gather(*asking)] == ["c"] * 20


async def test_as_a_table_each_metric_has_a_row(cast: Cast, file: Path) -> None:
    """A value with its unit, or why there is none; no text is a formula."""
    metrics = {"=1+1": {"value": -1.5, "unit": "s"}, "b": {"missing": "@sum(a1)"}}
    cells = [{"option": "+E", "condition": "steady", "metrics": metrics}]
    file.write_text(json.dumps(small(cells=cells)))
    rows = list(csv.reader(io.StringIO(await told(await cast.client(), query="?format=csv"))))
    assert rows == [
        ["option", "condition", "metric", "value", "unit", "missing"],
        ["'+E", "steady", "'=1+1", "-1.5", "s", ""],
        ["'+E", "steady", "b", "", "", "'@sum(a1)"],
    ]


def test_a_report_of_the_load_tests_is_one_for_the_router() -> None:
    """What the one writes the other reads: no field is lost on the way, but the series, which nothing here shows."""
    report = Tradeoff.model_validate_json(RECORDED.read_bytes())
    written = report.model_dump_json(exclude={"series", "idle"})
    assert json.loads(TradeoffView.model_validate_json(written).model_dump_json()) == json.loads(written)
