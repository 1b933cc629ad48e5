"""`python -m tests.stages test` and `python -m tests.stages nightly`: what `make test` and `make nightly` do.

`test` stops at the first stage that fails. `nightly` goes on behind it, keeps each result, and leaves out a stage that
has passed since what it reads has changed. Exit codes: 0 all stages passed; 1 not so; 2 a stage has no such name.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.kit.processes import ROOT
from tests.stages import budget, counted, kept
from tests.stages.catalogue import NIGHTLY, TEST, Stage
from tests.stages.counted import Counted
from tests.stages.kept import Result
from tests.stages.lanes import run

_VENV = Path(sys.prefix)
_REPORT = ROOT / ".cache" / "tests.json"
"""What the last `make test` did: tests, failures, and the seconds of each file."""
CHANGED = ", before what it reads was changed"
"""What is said of a result that a later run may change."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    """Run the stages that were asked for, and print their table."""
    chosen = _arguments()
    for number in _SIGNALS:
        signal.signal(number, _interrupted)
    known = {stage.name: stage for stage in (TEST if chosen.run == "test" else NIGHTLY)}
    if unknown := [name for name in chosen.stage or () if name not in known]:
        print(f"no stage {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    stages = [known[name] for name in chosen.stage] if chosen.stage else list(known.values())
    if chosen.hours and not (len(stages) == 1 and stages[0].is_open_ended):
        ends = ", ".join(name for name, stage in known.items() if stage.is_open_ended) or "none"
        print(f"--hours widens one open-ended stage; name it by --stage: {ends}", file=sys.stderr)
        return 2
    return _test(stages) if chosen.run == "test" else _nightly(stages, chosen.hours, bool(chosen.stage))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.stages", description=__doc__)
    parser.add_argument("run", choices=["test", "nightly"])
    parser.add_argument("--stage", action="append", metavar="NAME", help="only this stage, whatever is kept of it")
    parser.add_argument("--hours", type=float, default=0, help="nightly: what an open-ended stage takes")
    return parser.parse_args()


def _interrupted(number: int, _: object) -> None:
    # `timeout` and make send the same signal to a process and to its group: one of them is enough.
    for each in _SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _test(stages: Sequence[Stage]) -> int:
    """Run stages until one fails. Keep what all of them did, for who called this or reads it later."""
    results: list[Result] = []
    total = Counted()
    for stage in stages:
        result, did = _play(stage, stage.minutes, "", "")
        results.append(result)
        total.add(did)
        if not result.passed:
            break
    _print(results)
    rooms = budget.minutes()
    spent = sorted(budget.spent(total.seconds, rooms).items(), key=lambda room: -room[1])
    print("minutes of tests:", ", ".join(f"{name} {took:.1f} of {rooms.get(name, 0):g}" for name, took in spent))
    counted.write(Path(os.environ.get("TESTS_REPORT") or _REPORT), total)
    return int(not all(result.passed for result in results))


def _nightly(stages: Sequence[Stage], hours: float, named: bool) -> int:
    """Run all stages that have not passed since what they read has changed, and print the last result of each."""
    commit, ended = kept.commit(), list[Result]()
    for stage in stages:
        digest, before = kept.digest(stage.reads), kept.read(kept.FILE).get(stage.name)
        if before is not None and before.passed and before.digest == digest and not named and not stage.asks:
            ended.append(before)
            continue
        result, did = _play(stage, hours * 60 or stage.minutes, commit, digest)
        if stage.name == "test" and result.passed:
            budget.write(did.seconds)
            if slow := budget.over(did.seconds, budget.minutes()):
                result = dataclasses.replace(result, outcome="; ".join(slow))
        kept.keep(result, kept.FILE)
        ended.append(result)
    _print(_merged())
    return int(not all(result.passed for result in ended))


def _merged() -> list[Result]:
    """The last result of each stage that was ever played, and whether what it reads has changed since."""
    results = kept.read(kept.FILE)
    merged = list[Result]()
    for stage in NIGHTLY:
        if (result := results.get(stage.name)) is not None:
            is_old = result.digest != kept.digest(stage.reads)
            merged.append(dataclasses.replace(result, outcome=result.outcome + CHANGED) if is_old else result)
    return merged


def _play(stage: Stage, minutes: float, commit: str, digest: str) -> tuple[Result, Counted]:
    """Install what a stage needs, and run it."""
    again = f"make {'nightly' if commit else 'test'} STAGE={stage.name}"
    if stage.needs_root and (os.geteuid() or not shutil.which("unshare")):
        return Result(stage.name, commit, digest, 0, 0, "needs root on Linux", again), Counted()
    print(f"\n== {stage.name}", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="framehold-tests-") as folder:
        limit = 60 * (minutes + 10 if stage.is_open_ended else minutes)
        passed = _installed(stage.needs) and run(stage.commands(minutes), Path(folder), limit)
        did = counted.read(Path(folder).glob("*.json"))
    if did.failed:
        again = f"make test ARGS={shlex.quote(' '.join(map(shlex.quote, did.failed[:5])))}"
    seconds = time.monotonic() - began
    return Result(stage.name, commit, digest, did.passed, seconds, "passed" if passed else "failed", again), did


def _installed(needs: Sequence[str]) -> bool:
    """Let make install the tools of a stage. It says what and how much, or nothing where they are here."""
    folder = _VENV.relative_to(ROOT) if _VENV.is_relative_to(ROOT) else _VENV
    command = ["make", "--silent", f"VENV={folder}", *(f"{folder}/.{name}" for name in needs)]
    return not needs or subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def _print(results: Sequence[Result]) -> None:
    wide = max(len(result.stage) for result in results)
    commit = any(result.commit for result in results)
    print(f"\n{'stage':{wide}}  tests  seconds  result")
    for result in results:
        words = [f"{result.stage:{wide}} {result.tests:6d} {result.seconds:8.0f}  {result.outcome}"]
        words += [f"at {result.commit}"] if commit else []
        words += [] if result.outcome.startswith("passed") else [f"again: {result.again}"]
        print("  ".join(words))
    print(f"{'total':{wide}} {sum(r.tests for r in results):6d} {sum(r.seconds for r in results):8.0f}")


if __name__ == "__main__":
    sys.exit(main())
