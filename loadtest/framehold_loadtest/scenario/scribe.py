"""The writer of the users' notes: one file, on the machine of locust's master.

Law: one process writes. The notes of a worker travel with its reports to the master; its last report follows its last
user.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from locust.env import Environment
from locust.runners import WorkerRunner

from framehold_loadtest import notes

_KEY = "framehold_notes"


class Scribe:
    """Takes the notes of the users of one locust process."""

    def __init__(self, environment: Environment, path: str) -> None:
        self._far = isinstance(environment.runner, WorkerRunner)
        self._kept: list[str] = []
        self._file = None if self._far else Path(path).open("a", encoding="utf-8", buffering=1)  # noqa: SIM115
        events: Any = environment.events  # untyped
        if self._far:
            events.report_to_master.add_listener(self._send)
        else:
            events.worker_report.add_listener(self._receive)
            events.test_start.add_listener(lambda **_: self._write(notes.mark("began", time.time())))
            events.test_stop.add_listener(lambda **_: self._write(notes.mark("ended", time.time())))

    def note(self, note: notes.Round | notes.Call | notes.Duplicate) -> None:
        """Write it, or keep it for the next report."""
        self._write(notes.line(note))

    def _write(self, line: str) -> None:
        if self._file is None:
            self._kept.append(line)
        else:
            self._file.write(f"{line}\n")

    def _send(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        data[_KEY], self._kept = self._kept, []

    def _receive(self, client_id: str, data: dict[str, Any], **_: Any) -> None:
        for line in data.get(_KEY, ()):
            self._write(line)
