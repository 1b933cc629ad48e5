"""`python -m tests.seeded`: plays schedules of real runtimes. Prints the trace of the first that fails."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from .plan import draw
from .world import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.seeded", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many schedules (100)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--trace", action="store_true", help="print each trace")
    chosen = parser.parse_args()
    began, counts = time.monotonic(), Counter[str]()
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        world, error = play(draw(seed))
        if error is not None or chosen.trace:
            print("\n".join((f"seed {seed}: {world.plan}", *world.lines, repr(error))))
        if error is not None:
            return 1
        counts += world.counts
    seconds = time.monotonic() - began
    print(f"{chosen.runs} schedules clean in {seconds:.1f} s ({chosen.runs / seconds:.0f}/s): {dict(counts)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
