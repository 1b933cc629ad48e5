"""From a run's notes to its report."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold_loadtest import notes
from framehold_loadtest.ledger import Effects
from framehold_loadtest.notes import ENDED, LOST, OPEN, UNBORN, Call, Duplicate, Notes, Round
from framehold_loadtest.report.series import Fault
from framehold_loadtest.scenario import record
from framehold_loadtest.scenario.checks import Evidence, none_lost
from framehold_loadtest.scenario.swarm import Crowd, Swarm

pytestmark = pytest.mark.load

HEAD = {"machine": {"machine": "x"}, "commit": "abc", "started": "today", "command": "framehold load kill"}
ROUNDS = [
    Round("a", 1, 100.0, 0.1, "n1"),
    Round("a", 2, 101.0, 0.2, "n1", "n1"),
    Round("b", 2, 102.0, 4.0, "n2", "n1", ("503 x", "no answer")),
    Round("c", 2, 102.0, 30.0, "", "n1", ("503 x",), "503 y"),
]
CALLS = [
    Call("a", 100.0, 103.0, 2, ENDED),
    Call("b", 100.0, 106.0, 2, ENDED),
    Call("c", 100.0, 132.0, 2, LOST, "503 y"),
    Call("d", 100.0, 101.0, 1, UNBORN),
    Call("e", 130.0, 140.0, 2, OPEN),
]


def seen() -> Evidence:
    found = Notes(ROUNDS, CALLS, [Duplicate("a", 103.0, 0.3, True)], 100.0, 140.0)
    return Evidence(found, Effects(4, 4, 0, 0), [Fault(102.0, "kill", "n1", 105.0)])


def test_a_report_counts_calls_and_times_from_the_beginning_of_its_run() -> None:
    found = record.scenario("kill", seen(), [none_lost(seen())], HEAD)
    assert (found.calls.begun, found.calls.ended, found.calls.lost) == (4, 2, 1)
    assert [(fault.at, fault.until) for fault in found.faults] == [(2.0, 5.0)]
    assert found.resumes["during"] == [4.0]
    assert found.series.p50[1] == 200.0
    assert (len(found.series.t), found.seconds) == (30, 40.0), "series end when no call begins any more"
    assert not found.passed
    assert record.lines("kill", found) == [
        "kill: 4 calls begun, 2 ended, 1 lost, 1 open at the end",
        "FAIL  calls lost: 1 of 3 (wanted 0)",
    ]


def test_notes_are_read_back_as_they_were_written() -> None:
    noted: list[Round | Call | Duplicate] = [*ROUNDS, *CALLS, *seen().notes.duplicates]
    written = [notes.mark("began", 1.0), *map(notes.line, noted)]
    read = Notes()
    read.take([*written, notes.mark("ended", 2.0)])
    assert read == Notes(ROUNDS, CALLS, seen().notes.duplicates, 1.0, 2.0)


def test_half_a_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """Locust writes while its parent reads."""
    swarm, line = Swarm(tmp_path, "http://127.0.0.1:1", Crowd("kill")), notes.line(ROUNDS[0])
    with (tmp_path / "notes.jsonl").open("a") as file:
        file.write(f"{line}\n{line[:20]}")
        file.flush()
        assert swarm.look().rounds == ROUNDS[:1]
        file.write(f"{line[20:]}\n")
    assert swarm.look().rounds == [ROUNDS[0], ROUNDS[0]]
