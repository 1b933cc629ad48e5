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
import signal
import sys
import time

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


def _played(part: str, seed: int, seconds: float) -> Outcome:
    """What a part has found. A part that can't run is a finding."""
    try:
        module = importlib.import_module(f".{PARTS[part]}", __package__)
        outcome: Outcome = module.run(seed, seconds)
        return outcome
    except Exception as error:
        return Outcome(0, [f"{part} did not run: {error!r}"])


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
    logging.disable(logging.WARNING)
    parts = chosen.part or [*PARTS]
    seconds = chosen.seconds if chosen.minutes is None else 60 * chosen.minutes / len(parts)
    found = 0
    for part in parts:
        began = time.monotonic()
        outcome = _played(part, chosen.seed, seconds)
        found += len(outcome.found)
        seen = f", {outcome.seen}" if outcome.seen else ""
        what = f"{outcome.tried} inputs from seed {chosen.seed} on in {time.monotonic() - began:.0f} s{seen}"
        print(*outcome.found[:20], f"{part}: {what}, {len(outcome.found)} findings", sep="\n", flush=True)
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
