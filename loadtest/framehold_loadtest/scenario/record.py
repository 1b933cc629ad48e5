"""From what a run left behind to its report.json. Pure.

Law: each figure comes from the users' notes, the ledger, the samples or the list of faults, never from locust's totals.
So a report can be made again from the files of its run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from framehold_loadtest.notes import ENDED, LOST, OPEN, UNBORN, outcomes
from framehold_loadtest.report import data
from framehold_loadtest.report.series import drawn
from framehold_loadtest.scenario.checks import Evidence, split


def scenario(name: str, seen: Evidence, verdicts: Sequence[data.Verdict], head: Mapping[str, Any]) -> data.Scenario:
    """The report of a run; `head` is what it says of the machine and of itself."""
    notes, began = seen.notes, seen.notes.began
    # What follows is calls that end, with nobody behind them: a rate that falls then has not dipped.
    load = max((call.began for call in notes.calls), default=began) - began
    found = outcomes(notes.calls)
    return data.Scenario(
        **head,
        scenario=name,
        seconds=max(notes.ended - began, 0.0),
        verdicts=list(verdicts),
        series=drawn(notes.rounds, seen.samples, began, load),
        faults=[replace(fault, at=fault.at - began, until=fault.until - began) for fault in seen.faults],
        resumes=split(notes.rounds, seen.faults),
        effects=seen.effects,
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
