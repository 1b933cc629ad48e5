"""`python -m tests.seeded`: plays schedules of real runtimes."""

from __future__ import annotations

import argparse
import sys

from tests.sim.mutations import RED

from .plan import draw
from .report import main, places, story
from .world import play


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.seeded", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many schedules (100)")
    parser.add_argument("--minutes", type=float, help="play until so many minutes are over, in place of --runs")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--add", action="store_true", help="play those behind the ones in played.json, and add them")
    parser.add_argument("--trace", action="store_true", help="print each trace, in place of a report")
    parser.add_argument("--mutate", choices=list(RED), help="break the core on purpose")
    return parser.parse_args()


if __name__ == "__main__":
    chosen = _arguments()
    if not chosen.trace:
        sys.exit(main(chosen.seed, chosen.runs, chosen.mutate, chosen.minutes, adds_up=chosen.add))
    at = places()
    for seed in range(chosen.seed, chosen.seed + chosen.runs):
        print(story(*play(draw(seed), at)))
