"""From the files of a run to its report.json. Pure.

Law: each figure comes from the users' notes, the ledger, the samples or the list of faults, never from locust's totals.
So a report can be made again from the files of its run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from framehold_loadtest.notes import COPY, ENDED, LOST, OPEN, REFUSED, TOTAL, UNBORN, Notes, outcomes
from framehold_loadtest.report import data
from framehold_loadtest.report.series import drawn
from framehold_loadtest.scenario.checks import Evidence, Verdict, split
from framehold_loadtest.stats import percentile


def requests(notes: Notes) -> dict[str, data.Request]:
    """How many requests of each name there were, and how long they took, in milliseconds."""
    took: dict[str, list[float]] = {}
    failed: dict[str, int] = {}

    def count(name: str, seconds: float, good: bool) -> None:
        took.setdefault(name, []).append(seconds * 1e3)
        failed[name] = failed.get(name, 0) + (not good)

    for item in notes.rounds:
        count(item.name, item.seconds, item.answered)
    for copy in notes.duplicates:
        count(COPY, copy.seconds, copy.same)
    for call in notes.calls:
        if call.outcome in (ENDED, LOST):
            count(TOTAL, call.ended - call.began, call.outcome == ENDED)
    found = {name: _request(times, failed[name]) for name, times in sorted(took.items())}
    refused = sum(len(item.refused) for item in notes.rounds)
    return found | ({REFUSED: data.Request(count=refused, failures=0, p50=None, p99=None)} if refused else {})


def scenario(name: str, seen: Evidence, verdicts: Iterable[Verdict], head: Mapping[str, Any]) -> data.Scenario:
    """The report of a run; `head` is what it says of the machine and of itself."""
    notes, began = seen.notes, seen.notes.began
    seconds = max(notes.ended - began, 0.0)
    # What follows is calls that end, with nobody behind them: a rate that falls then has not dipped.
    load = max((call.began for call in notes.calls), default=began) - began
    series = drawn(notes.rounds, seen.samples, began, load)
    found = outcomes(notes.calls)
    return data.Scenario(
        **head,
        scenario=name,
        seconds=seconds,
        verdicts=[data.Verdict(**asdict(verdict)) for verdict in verdicts],
        requests=requests(notes),
        series=data.Series(**(series | {name: _milliseconds(series[name]) for name in ("p50", "p99")})),
        faults=[
            data.Fault(
                at=fault.at - began,
                what=fault.what,
                target=fault.target,
                until=fault.until - began,
                seen=dict(fault.seen),
            )
            for fault in seen.faults
        ],
        resumes=data.Resumes(**split(notes.rounds, seen.faults)),
        effects=data.Effects(**asdict(seen.effects)) if seen.effects is not None else None,
        calls=data.Calls(begun=len(notes.calls) - found[UNBORN], ended=found[ENDED], lost=found[LOST]),
    )


def lines(name: str, found: data.Scenario) -> list[str]:
    """The lines that a terminal shows at the end."""
    parts = [f"{'PASS' if verdict.passed else 'FAIL'}  {verdict.name}: {verdict.seen} (wanted {verdict.wanted})"
            for verdict in found.verdicts]  # fmt: skip
    calls = found.calls
    cut = calls.begun - calls.ended - calls.lost
    summary = f"{name}: {calls.begun} calls begun, {calls.ended} ended, {calls.lost} lost, {cut} {OPEN} at the end"
    return [summary, *parts]


def _request(times: Sequence[float], failures: int) -> data.Request:
    return data.Request(count=len(times), failures=failures, p50=percentile(times, 0.5), p99=percentile(times, 0.99))


def _milliseconds(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else value * 1e3 for value in values]
