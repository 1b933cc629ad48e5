"""The page Trade-off: what a report says of each option, where it says nothing, and where there is no report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.dashboard.line import Line, later
from tests.dashboard.screen import Screen
from tests.router.cast import RECORDED

pytestmark = [pytest.mark.anyio, pytest.mark.browser]

_ROW = """([table, head]) => {
  const rows = [...document.querySelectorAll(`main [aria-label="${table}"] table tr`)];
  const found = rows.find((row) => row.firstElementChild.innerText.startsWith(head));
  return [...found.children].map((cell) => cell.innerText.replaceAll("\\n", " | ").replaceAll("\\u00a0", " "));
}"""
HARM = "Harm by option and condition"


def value(number: float, unit: str) -> dict[str, Any]:
    return {"value": number, "unit": unit}


def share(hit: int, of: int) -> dict[str, Any]:
    """The share of the calls that could be hit."""
    return {"value": 100 * hit / of, "unit": "%", "beside": f"{hit:,} of {of:,} calls"}


def cell(option: str, condition: str, **metrics: dict[str, Any]) -> dict[str, Any]:
    harmless = {"lost_share": share(0, 400), "repeated_share": share(0, 400)}
    return {"option": option, "condition": condition, "metrics": harmless | metrics}


def report(*cells: dict[str, Any]) -> str:
    """The report of these cells."""
    options, conditions = ({one[name]: None for one in cells} for name in ("option", "condition"))
    head = {"kind": "tradeoff", "machine": {"cores": "2"}, "commit": "3f9c2d1", "started": "2026-11-22 06:20 UTC"}
    text = {**head, "command": "framehold bench tradeoff --out DIR", "cells": cells}
    return json.dumps({**text, "options": list(options), "conditions": list(conditions)})


async def shown(page: Screen, way: Line, *cells: dict[str, Any]) -> None:
    way.report.write_text(report(*cells), encoding="utf-8")
    await page.open("/tradeoff")


async def row(page: Screen, table: str, head: str) -> list[str]:
    """The texts of one line of a table."""
    found: list[str] = await page.page.evaluate(_ROW, [table, head])
    return found


async def test_each_condition_has_a_table_of_all_options(way: Line, page: Screen) -> None:
    """A column for each, and what the report says of its run."""
    recorded = json.loads(RECORDED.read_bytes())
    way.report.write_bytes(RECORDED.read_bytes())
    await page.open("/tradeoff")
    for condition in recorded["conditions"]:
        heads = await row(page, f"Measured under {condition}", "Metric")
        assert heads == ["Metric", *recorded["options"]]
    assert await row(page, HARM, "Option") == [
        "Option",
        "Verdict",
        *(name.capitalize() for name in recorded["conditions"]),
    ]
    origin = await page.page.get_by_role("region", name="How it was measured").inner_text()
    output = {recorded[name] for name in ("commit", "started", "command")} | set(recorded["machine"].values())
    assert [text for text in output if text not in origin] == []
    assert "NaN" not in await page.shown() and "undefined" not in await page.shown()


@pytest.mark.nightly
async def test_parts_make_one_number_and_are_told_beside_it(way: Line, page: Screen) -> None:
    """The slowest round, all bytes, the largest token, all processes; in the unit of the report."""
    rounds = {
        "p50_ms_round_10": value(9.876, "ms"),
        "p50_ms_round_2": value(12.34, "ms"),
        "p50_ms_round_1": value(0.5, "ms"),
        "wire_bytes_round_1": value(1000, "bytes"),
        "wire_bytes_round_2": value(2500, "bytes"),
        "token_bytes_round_1": value(182, "bytes"),
        "token_bytes_round_2": value(95, "bytes"),
    }
    cpu = {"cpu_us_store": value(88.63, "us"), "cpu_us_node": value(1202, "us"), "cpu_us_router": value(236.3, "us")}
    held = {"bytes_per_parked_call_node": value(6000, "bytes"), "bytes_per_parked_call": {"missing": "in parts"}}
    others = {"odd_metric": value(1e15, "parts"), "odd_per_node": value(8, "parts")}
    await shown(page, way, cell("E", "steady", **rounds, **cpu, **held, **others))
    table = "Measured under steady"
    assert await row(page, table, "Latency p50") == ["Latency p50, ms | slowest round", "12.3 | 0.500 · 12.3 · 9.88"]
    assert await row(page, table, "Sent and") == ["Sent and received, bytes | all rounds", "3,500 | 1,000 · 2,500"]
    assert await row(page, table, "Token") == ["Token, bytes | largest", "182 | 182 · 95"]
    assert await row(page, table, "CPU per call") == [
        "CPU per call, µs | all processes",
        "1,527 | 1,202 node + 236 router + 88.6 store",
    ]
    assert await row(page, table, "Memory") == ["Memory per parked call, bytes", "6,000"]
    result = [await row(page, table, head) for head in ("Odd metric", "Odd per node")]
    assert result == [["Odd metric", "1.00e+15"], ["Odd per node", "8"]], "whatever was measured is shown"


async def test_what_was_not_measured_says_so_and_why(way: Line, page: Screen) -> None:
    """In the cell for who listens, below the table for who looks; a sum of which a part is missing is none."""
    missing = {"missing": "nothing fails under it"}
    gap = {"cpu_us_node": value(5, "us"), "cpu_us_store": {"missing": "it has no store"}}
    first = cell("E", "steady", seconds_to_recover=missing, **gap)
    await shown(page, way, first, cell("F", "steady", seconds_to_recover=missing, calls_per_second=value(5, "1/s")))
    table = page.page.get_by_role("table", name="Measured under steady")
    cells = table.get_by_role("row", name="Time to recover").get_by_role("cell")
    reply = await table.get_by_role("row", name="Time to recover").aria_snapshot()
    assert reply.count('cell "not available (nothing fails under it)"') == 2, reply
    reasons = page.page.get_by_role("list", name="Why it is not available").get_by_role("listitem")
    result = await reasons.all_inner_texts()
    assert result.count("nothing fails under it") == 1 and "store: it has no store" in result
    numbers = await cells.locator("sup").all_inner_texts()
    assert numbers == [str(result.index("nothing fails under it") + 1)] * 2
    assert "the run did not report it" in result, "what a report leaves out is not taken for measured"
    assert await page.findings() == []


@pytest.mark.nightly
async def test_an_option_is_cleared_only_where_it_was_looked_at(way: Line, page: Screen) -> None:
    """It harms wherever it harms once; without harm, and not looked at everywhere, nobody knows."""
    lost = {"lost_share": share(1200, 2400), "repeated_share": share(1, 400)}
    unseen = {"lost_share": {"missing": "it was cut short"}, "repeated_share": {"missing": "it was cut short"}}
    half = {"repeated_share": {"missing": "no ledger"}, "lost_share": share(3, 400)}
    await shown(
        page,
        way,
        *(cell("H-hold", name) for name in ("steady", "node killed")),
        *(cell("E", "steady"), cell("E", "node killed", **lost)),
        *(cell("F", "steady"), cell("F", "node killed", **unseen)),
        *(cell("G", "steady"), cell("G", "node killed", **half)),
        cell("A", "steady"),
    )
    assert (await row(page, HARM, "H-hold"))[1:] == ["harmless", "none", "none"]
    assert (await row(page, HARM, "E"))[1:] == [
        "harms",
        "none",
        "50 % lost | 1,200 of 2,400 calls | 0.250 % repeated | 1 of 400 calls",
    ]
    assert (await row(page, HARM, "F"))[1:3] == ["not known", "none"]
    assert (await row(page, HARM, "F"))[3].startswith("not available")
    assert (await row(page, HARM, "G"))[1] == "harms"
    assert "0.750 % lost | 3 of 400 calls | repeated effects not available" in (await row(page, HARM, "G"))[3]
    assert (await row(page, HARM, "A"))[1] == "not known", "of a pair that the report lacks nothing is known"


async def test_without_a_report_it_says_how_to_make_one(way: Line, page: Screen) -> None:
    """It is no fault; and what is measured meanwhile comes by itself, and goes with its file."""
    await page.open("/tradeoff")
    await page.sees("There is no report to show", "framehold bench tradeoff --out DIR")
    assert await page.page.get_by_role("alert").count() == 0
    assert await page.findings() == []
    way.report.write_text(report(cell("E", "steady")), encoding="utf-8")
    await later(page, 31)
    await page.sees("Calls per second")
    way.report.unlink()
    await later(page, 31)
    await page.sees("There is no report to show")


async def test_a_report_that_is_broken_is_named_as_that(way: Line, page: Screen) -> None:
    """What is wrong with it, and what to do; one that was shown before stays, and is said to be old."""
    way.report.write_text('{"kind": "scenario"}', encoding="utf-8")
    await page.open("/tradeoff")
    await page.sees("This could not be shown", "kind: Input should be 'tradeoff'")
    assert await page.findings() == []
    way.report.write_text(report(cell("E", "steady")), encoding="utf-8")
    await page.page.get_by_role("button", name="Try again").click()
    await page.sees("Calls per second")
    way.report.write_text(report(cell("E", "steady"))[:-10], encoding="utf-8")
    await later(page, 31)
    await page.sees("This could not be shown", "What is shown is the report that was read last", "Calls per second")


@pytest.mark.nightly
async def test_the_report_is_saved_as_a_table(way: Line, page: Screen) -> None:
    """A row for each metric of each cell."""
    await shown(page, way, cell("E", "steady", seconds_to_recover={"missing": "nothing fails"}))
    async with page.page.expect_download() as saved:
        await page.page.get_by_role("button", name="Save the trade-off as CSV").click()
    with open(await (await saved.value).path(), encoding="utf-8") as file:
        assert file.read().split() == [
            "option,condition,metric,value,unit,missing",
            *("E,steady,lost_share,0.0,%,", "E,steady,repeated_share,0.0,%,"),
            *("E,steady,seconds_to_recover,,,nothing", "fails"),
        ]
