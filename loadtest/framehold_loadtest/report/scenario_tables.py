"""What the page of a scenario says beside its figures: rules, requests, resumes and faults."""

from __future__ import annotations

from framehold_loadtest.report.arithmetic import recoveries
from framehold_loadtest.report.data import Scenario
from framehold_loadtest.report.words import milliseconds, percent, seconds
from framehold_loadtest.stats import percentile
from framehold_loadtest.table import Cell, Entry, Table, absent


def tiles(scenario: Scenario) -> list[tuple[str, Entry]]:
    """The figures of a scenario that matter first."""
    known = [share for share in scenario.series.affinity if share is not None]
    calls, ledger = scenario.calls, scenario.effects
    found = [one.seconds for one in recoveries(scenario.series.t, scenario.series.rate, scenario.faults)]
    longest = max((length for length in found if length is not None), default=None)
    unknown = sum(length is None for length in found)
    resumed = [seconds for took in scenario.resumes.phases.values() for seconds in took]
    return [
        ("calls", Entry(f"{calls.ended:,}", f"ended, of {calls.begun:,} begun")),
        ("calls lost", _none_wanted(calls.lost)),
        ("effects", Entry(f"{ledger.once:,}", f"once, of {ledger.wanted:,} wanted") if ledger else absent("no ledger")),
        ("effects twice", _none_wanted(ledger.twice) if ledger else absent("no ledger")),
        ("affinity", Entry(percent(percentile(known, 0.5)), f"median second; lowest {percent(min(known))}") if known
         else absent("not sampled")),
        ("resume p99", Entry(seconds(percentile(resumed, 0.99)), f"of {len(resumed):,}") if resumed
         else absent("no call was resumed")),
        ("recovered in", Entry(seconds(longest), f"at most; {unknown} unknown" if unknown else "at most")
         if longest is not None else absent("no faults" if not scenario.faults else "not known")),
    ]  # fmt: skip


def verdicts(scenario: Scenario) -> Table:
    """The pass rules, those that failed first."""
    lines: list[list[Cell]] = [["rule", "verdict", "wanted", "seen"]]
    for rule in sorted(scenario.verdicts, key=lambda rule: rule.passed):
        passed = Entry("passed", kind="good") if rule.passed else Entry("FAILED", kind="bad")
        lines.append([rule.name, passed, rule.wanted, rule.seen])
    return Table("Rules", lines)


def requests(scenario: Scenario) -> Table:
    """What was sent, by name."""
    lines: list[list[Cell]] = [["name", "count", "failures", "p50", "p99"]]
    for name, seen in scenario.requests.items():
        failures = Entry(f"{seen.failures:,}", kind="bad" if seen.failures else "")
        lines.append([name, f"{seen.count:,}", failures, milliseconds(seen.p50), milliseconds(seen.p99)])
    return Table("Requests", lines)


def resumes(scenario: Scenario) -> Table:
    """Resume latency by phase."""
    lines = [["when", "count", "p50", "p99", "longest"]]
    for phase, took in scenario.resumes.phases.items():
        shown = [percentile(took, 0.5), percentile(took, 0.99), max(took)] if took else [None] * 3
        lines.append([phase, f"{len(took):,}", *map(seconds, shown)])
    return Table("Resumes around the faults", lines)


def faults(scenario: Scenario) -> Table:
    """What was done, and how long the rate took to come back."""
    found = recoveries(scenario.series.t, scenario.series.rate, scenario.faults)
    lines: list[list[Cell]] = [["", "what", "target", "at", "until", "recovered in"]]
    for place, (fault, one) in enumerate(zip(scenario.faults, found, strict=True), 1):
        until = "-" if fault.until is None else f"{fault.until:.1f} s"
        back = Entry(seconds(one.seconds), "" if one.why == "back" else one.why)
        lines.append([str(place), fault.what, fault.target, f"{fault.at:.1f} s", until, back])
    return Table("Faults", lines)


def _none_wanted(count: int) -> Entry:
    return Entry(f"{count:,}", "none is wanted", "bad" if count else "good")
