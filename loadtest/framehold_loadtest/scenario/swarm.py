"""Locust as a child process: its command line, and the notes of its users so far.

Law: locust runs on gevent and its parent on threads, so the two never share a process. They communicate only through
the file of notes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from framehold_loadtest.local.process import Process, python
from framehold_loadtest.notes import Notes

_LOCUSTFILE = Path(__file__).with_name("locustfile.py")
STOP_SECONDS = 60
"""How long users who are on their way may take to end their call."""


@dataclass(frozen=True, slots=True)
class Crowd:
    """Who calls: numbers that are 0 leave the scenario's own. `workers` are locust processes beside the master, 0 for
    one process that does all; `ui` is the port of locust's own page, 0 for none."""

    scenario: str
    users: int = 0
    seconds: float = 0.0
    think: float = 0.0
    wave: float = 0.0
    workers: int = 0
    ui: int = 0


class Swarm:
    """The users of one run; files in `folder`."""

    def __init__(self, folder: Path, url: str, crowd: Crowd) -> None:
        self._path = folder / "notes.jsonl"
        self._path.touch()
        self._read = 0
        self.notes = Notes()
        self.process = Process("locust", command(folder, url, crowd), folder / "locust.log", {}, piped=False)

    def look(self) -> Notes:
        """The notes so far: whole lines only, the rest is read next time."""
        with self._path.open("rb") as file:
            file.seek(self._read)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read += len(whole)
        self.notes.take(whole.decode().splitlines())
        return self.notes


def command(folder: Path, url: str, crowd: Crowd) -> list[str]:
    """Locust's command line."""
    words = [
        "-f",
        str(_LOCUSTFILE),
        "--host",
        url,
        "--scenario",
        crowd.scenario,
        "--notes",
        str(folder / "notes.jsonl"),
    ]
    words += ["--callers", str(crowd.users), "--seconds", f"{crowd.seconds:g}"]
    words += ["--think", f"{crowd.think:g}", "--wave", f"{crowd.wave:g}"]
    words += ["--csv", str(folder / "locust"), "--csv-full-history", "--html", str(folder / "locust.html")]
    words += ["--json-file", str(folder / "locust"), "--stop-timeout", f"{STOP_SECONDS}s", "--loglevel", "WARNING"]
    words += ["--web-host", "127.0.0.1", "--web-port", str(crowd.ui)] if crowd.ui else ["--headless", "--only-summary"]
    # Its port for workers is open to all networks, if nothing else is said.
    words += ["--processes", str(crowd.workers), "--master-bind-host", "127.0.0.1"] if crowd.workers else []
    return python("locust", *words)
