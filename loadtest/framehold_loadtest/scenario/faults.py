"""The controller of faults: makes the faults of a scenario at their times, and keeps a record of them.

Law: it runs once, in the process that started the fleet, never in a process of locust. Faults follow each other. Each
fault is repaired before the next one begins, and before the controller returns.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from framehold_loadtest.local.fleet import Fleet
from framehold_loadtest.report.series import Fault
from framehold_loadtest.scenario import scenarios
from framehold_loadtest.scenario.samples import look
from framehold_loadtest.scenario.scenarios import Step

_TAKEN_SECONDS = 30.0
"""How long a paused node is given to lose a call."""


class Controller:
    """Makes the faults of one run of `seconds`, and keeps them in `done` and in a file."""

    def __init__(self, fleet: Fleet, seconds: float, path: Path, tell: Callable[[str], None]) -> None:
        self._fleet, self._seconds, self._path, self._tell = fleet, seconds, path, tell
        self.done: list[Fault] = []

    def run(self, steps: Sequence[Step], began: float, over: Callable[[], bool]) -> None:
        """Wait for the time of each step, and make it; none once the run is over."""
        for step in sorted(steps, key=lambda step: step.at):
            while time.time() < began + step.at * self._seconds and not over():
                time.sleep(0.05)
            if over():
                return
            self._make(step)

    def _make(self, step: Step) -> None:
        fleet, lasts = self._fleet, step.lasts * self._seconds
        if step.what == scenarios.KILL:
            self._broken(step.what, self._victim(), fleet.kill, lasts, fleet.restart)
        elif step.what == scenarios.NODE_PAUSE:
            self._stopped(step.what, self._victim(), lasts)
        elif step.what == scenarios.STORE_PAUSE:
            self._broken(step.what, "store", fleet.pause, lasts, fleet.resume)
        elif step.what == scenarios.STORE_RESTART:
            self._broken(step.what, "store", fleet.kill, lasts, fleet.restart)
        elif step.what == scenarios.ROLL:
            for name in list(fleet.nodes):
                at = self._begins(step.what, name)
                fleet.roll(name)
                self._ended(Fault(at, step.what, name, time.time()))
        elif step.what == scenarios.ADD:
            at, nodes = self._begins(step.what, "a node"), len(fleet.nodes) + 1
            name = fleet.add()
            self._ended(Fault(at, step.what, name, time.time(), {"moved": fleet.moved(), "nodes": nodes}))
        else:
            name = next(iter(fleet.nodes))
            at = self._begins(step.what, name)
            fleet.remove(name)
            seen = {"moved": fleet.moved(), "nodes": len(fleet.nodes) + 1}
            self._ended(Fault(at, step.what, name, time.time(), seen))

    def _broken(
        self, what: str, name: str, break_it: Callable[[str], None], lasts: float, mend: Callable[[str], None]
    ) -> None:
        at = self._begins(what, name)
        break_it(name)
        try:
            time.sleep(lasts)
        finally:
            mend(name)
        self._ended(Fault(at, what, name, time.time()))

    def _stopped(self, what: str, name: str, lasts: float) -> None:
        """A node stands still until another has taken over a call of it, and wakes with the frames that it still
        holds."""
        at, before = self._begins(what, name), self._fleet.taken_over(name)
        self._fleet.pause(name)
        try:
            deadline = at + lasts + _TAKEN_SECONDS
            time.sleep(lasts)
            while (taken := self._fleet.taken_over(name) - before) <= 0 and time.time() < deadline:
                time.sleep(0.05)
        finally:
            self._fleet.resume(name)
        self._ended(Fault(at, what, name, time.time(), {"taken": taken}))

    def _victim(self) -> str:
        """The node with the most parked calls: one without any would show nothing."""
        parked = look(self._fleet).parked
        return max(parked, key=lambda name: parked[name], default=next(iter(self._fleet.nodes)))

    def _begins(self, what: str, target: str) -> float:
        self._tell(f"fault: {what} {target}")
        return time.time()

    def _ended(self, fault: Fault) -> None:
        self.done.append(fault)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(fault)) + "\n")
        self._tell(f"mended: {fault.what} {fault.target}, after {fault.until - fault.at:.1f} s")
