"""The processes of a stage: each lane is one command, and lanes run at the same time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.kit.processes import ROOT

_END = 60.0
"""Seconds in which pytest ends the children of its tests after a signal."""


class Lane:
    """One process. Without a file it writes where this process writes."""

    def __init__(self, command: Sequence[str], more: Mapping[str, str], output: Path | None = None) -> None:
        self._output = output
        self._name = " ".join(command)
        print(f"\n-- {self._name}", flush=True)
        # Python keeps what it compiles: tests start hundreds of children that import the same modules.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with ExitStack() as stack:
            where = None if output is None else stack.enter_context(output.open("wb"))
            # A session of its own: Ctrl-C reaches this process alone, and the lane is interrupted once, not twice.
            self._child = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**inherited, **more},
                stdin=subprocess.DEVNULL,
                stdout=where,
                stderr=where,
                start_new_session=True,
            )

    def wait(self, seconds: float) -> bool:
        """Wait for its end, and say whether it ended well.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.
        """
        return self._child.wait(seconds) == 0

    def end(self) -> None:
        """End it as Ctrl-C does. Idempotent."""
        if self._child.poll() is None:
            self._child.send_signal(signal.SIGINT)
            try:
                self._child.wait(_END)
            except subprocess.TimeoutExpired:
                os.killpg(self._child.pid, signal.SIGKILL)
                self._child.wait()

    def show(self) -> None:
        """Print what it wrote to its file."""
        if self._output is not None:
            print(f"\n-- output of {self._name}", flush=True)
            print(self._output.read_text(errors="replace"), end="", flush=True)


def run(commands: Sequence[Sequence[str]], folder: Path, seconds: float) -> bool:
    """Run commands at the same time, until all have ended; whether all ended well.

    The first one writes where this process writes. The others write to a file in `folder`, which is shown at the end.
    What still runs after `seconds` is ended, and has not ended well.
    """
    lanes: list[Lane] = []
    end = time.monotonic() + seconds
    try:
        for place, command in enumerate(commands):
            report = {"TESTS_REPORT": str(folder / f"{place}.json")}
            lanes.append(Lane(command, report, folder / f"{place}.txt" if place else None))
        passed = [lane.wait(max(0, end - time.monotonic())) for lane in lanes]
        return all(passed)
    except subprocess.TimeoutExpired:
        print(f"\nstill running after {seconds:.0f} s, and ended: {' '.join(commands[0])}", flush=True)
        return False
    finally:
        for lane in lanes:
            lane.end()
        for lane in lanes:
            lane.show()
