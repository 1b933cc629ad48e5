"""Runs the fuzzers of all targets, one after the other, in processes of their own."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import sys
import tempfile
from pathlib import Path

from tests.kit.processes import DEADLINE, ROOT, Child

from ..part import Outcome
from . import seeds
from .targets import TARGETS

CORPUS = ROOT / ".cache" / "fuzz"
"""The inputs that reached new code, for the next run."""
_RUNS = re.compile(r"stat::number_of_executed_units: (\d+)")
_COVERED = re.compile(r" cov: (\d+) ")
_RAISED = re.compile(r"=== Uncaught Python exception: ===\n(.*?)\n==\d+==|(ERROR: libFuzzer: .*)", re.DOTALL)


def run(seed: int, seconds: float, corpus: Path = CORPUS) -> Outcome:
    """Fuzz all targets, together for some seconds; `seed` is libFuzzer's."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        folder = Path(name)
        for target in TARGETS:
            (corpus / target).mkdir(parents=True, exist_ok=True)
            (folder / target).mkdir()
            seeds.write(target, folder / target)
        each = max(1, round(seconds / len(TARGETS)))
        words = ["-m", "tests.fuzz.guided", name, str(corpus), str(each), str(seed)]
        child = Child([sys.executable, *words], folder / "log")
        child.launch()
        try:
            # What takes too long is told by those that have ended.
            with contextlib.suppress(AssertionError):
                asyncio.run(child.ends(seconds + len(TARGETS) + DEADLINE))
        finally:
            child.stop(signal.SIGTERM)
        read = [_read(target, folder) for target in TARGETS]
    return Outcome(
        sum(tried for tried, _, _ in read),
        [text for _, found, _ in read for text in found],
        f"{sum(covered for _, _, covered in read)} places in the code of {len(TARGETS)} readers",
    )


def _read(target: str, folder: Path) -> tuple[int, list[str], int]:
    """What a fuzzer's log says: executions, findings and coverage."""
    file = folder / f"{target}.log"
    log = file.read_text(errors="replace") if file.exists() else ""
    runs, covered, raised = _RUNS.search(log), _COVERED.findall(log), _RAISED.search(log)
    found = []
    if raised is not None:
        inputs = [path.read_bytes() for path in folder.glob(f"{target}-*")]
        found.append(f"{target}: {raised[1] or raised[2]}\n  {inputs!r:.5000}")
    elif runs is None:
        found.append(f"{target}: the fuzzer did not run:\n{log[-2000:]}{(folder / 'log').read_text()[-2000:]}")
    return int(runs[1]) if runs else 0, found, int(covered[-1]) if covered else 0
