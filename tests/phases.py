"""`python -m tests.phases`: every test, in the order that takes the least time on two cores and disturbs none.

    1. together: all tests that may run beside any other, in parallel workers, slow files first
    2. two lanes at the same time, in each lane one test after the other: PROCESSOR beside WAITING
    3. ALONE: tests that measure time, one after the other

A test belongs in a lane if it counts what the garbage collector of its process finds, or kills and stops processes of
a whole fleet. A phase starts only if the phase before it passed. The output of the first lane is shown
as it comes, that of the second when both lanes have ended.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

PROCESSOR = (
    "tests/node/frame/test_frame_ends.py",
    "tests/node/frame/test_once_and_the_store.py",
    "tests/dashboard",
    "tests/helm/kube",
    "tests/helm/docs/test_commands.py",
    "tests/helm/image/test_helm_test.py",
    "tests/loadtest/tradeoff/test_command.py",
)
"""Tests that count garbage, and tests that keep a browser or a whole rehearsed cluster busy. Garbage is counted first:
the browser's tests share an event loop, whose timers keep what they refer to until they are due."""
WAITING = (
    "tests/fleet",
    "tests/helm/haproxy",
    "tests/loadtest/scenario/test_miniature.py",
)
"""Tests that wait for leases and deadlines most of the time. Both lanes are to take about as long: each prints the
seconds of its files, and a folder may change its lane."""
ALONE = (
    "tests/fleet/cells/test_node_killed_while_parked.py",
    "tests/fleet/cells/test_node_drained.py",
    "tests/fleet/day",
    "tests/helm/haproxy/test_faults.py",
    "tests/dashboard/test_a_killed_node.py",
    "tests/dashboard/test_many_leases.py",
    "tests/node/engine/test_drain.py",
    "tests/node/admin/test_profile.py",
    "tests/node/telemetry/test_sampler.py",
)
"""Tests that compare seconds with a figure which the docs promise, or shares of a loop's time with what it did, or
that no process stands still: whatever runs beside them adds to it."""
SLOW = (
    "tests/sim/test_simulation.py",
    "tests/cli/local/test_up.py",
    "tests/tutorials/test_first_server.py",
    "tests/cli/local/test_without_a_clone.py",
    "tests/cli/call/test_call.py",
    "tests/cli/serve/test_stdio.py",
    "tests/cli/serve/test_node_command.py",
    "tests/cli/serve/test_refusals.py",
    "tests/node/http/test_one_node.py",
    "tests/node/engine/test_killed.py",
    "tests/node/engine/test_in_doubt.py",
    "tests/store/test_sentinel.py",
    "tests/cli/call/test_proof.py",
    "tests/loadtest/tradeoff/test_each_option.py",
    "tests/loadtest/peers/test_each_peer.py",
    "tests/helm/image/test_images.py",
    "tests/conformance/test_fleet.py",
    "tests/clients/test_listen.py",
    "tests/store/test_cluster.py",
    "tests/cli/operate/test_operating.py",
    "tests/cli/local/test_author.py",
    "tests/cli/serve/test_author_logs.py",
    "tests/node/wires/test_saga_fleet.py",
    "tests/node/hosts/test_fastmcp_clients.py",
    "tests/peers/test_typescript_fleet.py",
    "tests/loadtest/scenario/test_locust_alone.py",
    "tests/loadtest/bench/test_sections.py",
    "tests/helm/test_full_store.py",
    "tests/clients/test_dual_path.py",
    "tests/clients/test_negotiation.py",
    "tests/structure/test_wheel.py",
    "tests/structure/test_docs_site.py",
    "tests/cli/operate/test_watch.py",
    "tests/cli/call/test_call_terminal.py",
    "tests/options/test_from_anywhere.py",
)
"""Files of the first phase that take longest, the longest first. Each phase prints the seconds of its slowest files."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_END = 30.0
"""Seconds in which pytest ends the children of its tests after a signal."""


def _pytest(*words: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "--durations=50", "--durations-min=1", *words]


def _without(files: Sequence[str]) -> list[str]:
    return [f"--ignore={file}" for file in files]


def _together(workers: str) -> list[str]:
    # By itself xdist starts files of few tests last, and whole fleets are started by files of few tests.
    parallel = ("-n", workers, "--dist", "loadfile", "--no-loadscope-reorder")
    return _pytest(*parallel, *_without([*PROCESSOR, *WAITING, *ALONE]))


def _environment() -> dict[str, str]:
    """Python keeps what it compiles: tests start hundreds of children that import the same modules."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class Lane:
    """One pytest process. Without a file it writes where this process writes."""

    def __init__(self, name: str, command: Sequence[str], output: Path | None = None) -> None:
        self.name, self._output = name, output
        print(f"\n-- {name}: {' '.join(command[1:])}", flush=True)
        with contextlib.ExitStack() as stack:
            where = None if output is None else stack.enter_context(output.open("wb"))
            # A session of its own: Ctrl-C reaches this process alone, and pytest is interrupted once, not twice.
            self._child = subprocess.Popen(
                command,
                cwd=ROOT,
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=where,
                stderr=where,
                start_new_session=True,
            )

    def wait(self) -> bool:
        """Wait for its end; whether all its tests passed."""
        return self._child.wait() == 0

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
            print(f"\n-- output of {self.name}", flush=True)
            print(self._output.read_text(errors="replace"), end="", flush=True)


def _passed(*lanes: Lane) -> bool:
    """Wait for lanes that run at the same time; whatever happens, end them and show all that they wrote."""
    try:
        passed = [lane.wait() for lane in lanes]
        return all(passed)
    finally:
        for lane in lanes:
            lane.end()
        for lane in lanes:
            lane.show()


def _two_lanes(folder: Path) -> bool:
    of_alone = _without(ALONE)
    waiting = Lane("waiting", _pytest(*of_alone, *WAITING), folder / "waiting")
    return _passed(Lane("processor", _pytest(*of_alone, *PROCESSOR)), waiting)


def _interrupted(number: int, _: object) -> None:
    # `timeout` and make send the same signal to a process and to its group: one of them is enough.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> int:
    """Run all phases; 0 if all tests passed."""
    parser = argparse.ArgumentParser(prog="python -m tests.phases", description=__doc__)
    parser.add_argument("--workers", default="2", help="parallel workers of the first phase (2)")
    chosen = parser.parse_args()
    for number in _SIGNALS:
        signal.signal(number, _interrupted)
    with tempfile.TemporaryDirectory(prefix="framehold-tests-") as folder:
        return not (
            _passed(Lane("together", _together(chosen.workers)))
            and _two_lanes(Path(folder))
            and _passed(Lane("alone", _pytest(*ALONE)))
        )


if __name__ == "__main__":
    sys.exit(main())
