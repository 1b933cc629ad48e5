"""`python -m tests.fuzz`: draw what others may send and store from a seed, and see what all that reads it makes of it.

    readers    bodies of requests: router and node read each as the SDK does
    rounds     whole rounds at three nodes, in all positions of a client, beside a server of the SDK alone
    front      mutated requests at a router with a strict server behind it, and what uvicorn reads in them
    haproxy    the same requests at HAProxy
    store      garbage and well-formed lies in every kind of key, below two nodes and a router
    guided     a coverage-guided fuzzer at each reader of what others write

Ctrl-C and SIGTERM end it and all that it started. The exit code says whether anything was found.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress

from tests.kit.processes import descendants

from .part import Outcome

PARTS = {
    "readers": "readers",
    "rounds": "rounds",
    "front": "front",
    "haproxy": "balanced",
    "store": "store",
    "guided": "guided.run",
}
"""The module of each part. Only what is run is imported: `guided` needs a package of its own."""


def _end(number: int, _: object) -> None:
    # Once is enough: a second one would cut off what ends what was started.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _play(part: str, seed: int, seconds: float) -> None:
    """Run a part, and print what it has found. A part that can't run is a finding. Runs in a process of its own: an
    exception out of a signal's handler ends only code that lets it pass, and a part runs a whole fleet."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits for this one.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    logging.disable(logging.WARNING)
    began = time.monotonic()
    try:
        outcome: Outcome = importlib.import_module(f".{PARTS[part]}", __package__).run(seed, seconds)
    except Exception as error:
        outcome = Outcome(0, [f"{part} did not run: {error!r}"])
    seen = f", {outcome.seen}" if outcome.seen else ""
    what = f"{outcome.tried} inputs from seed {seed} on in {time.monotonic() - began:.0f} s{seen}"
    print(*outcome.found[:20], f"{part}: {what}, {len(outcome.found)} findings", sep="\n", flush=True)
    sys.exit(len(outcome.found) > 0)


def _kill_descendants() -> None:
    while found := descendants(os.getpid()):
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        multiprocessing.active_children()  # It waits for those that have ended.


def main() -> int:
    """Run each part for its seconds."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60, help="seconds for each part (60)")
    parser.add_argument("--minutes", type=float, help="minutes for all parts together, in place of --seconds")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--part", choices=[*PARTS], action="append", help="this part alone; may be repeated")
    chosen = parser.parse_args()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    parts = chosen.part or [*PARTS]
    seconds = chosen.seconds if chosen.minutes is None else 60 * chosen.minutes / len(parts)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="framehold-fuzz-") as folder:
        tempfile.tempdir = os.environ["TMPDIR"] = folder
        try:
            for part in parts:
                process = multiprocessing.get_context("fork").Process(target=_play, args=(part, chosen.seed, seconds))
                process.start()
                process.join()
                failed += process.exitcode != 0
                if process.exitcode not in (0, 1):
                    print(f"{part}: its process ended with {process.exitcode}", flush=True)
        finally:
            _kill_descendants()
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
