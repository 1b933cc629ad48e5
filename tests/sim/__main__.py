"""`python -m tests.sim`: play seeded schedules of several nodes around the real core, and check every step."""

from __future__ import annotations

import argparse
import sys

from .mutations import MASKED, RED
from .plan import draw
from .report import main, story


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--runs", type=int, default=2000, help="how many schedules (2000)")
    parser.add_argument("--minutes", type=float, help="play until so many minutes are over, in place of --runs")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--add", action="store_true", help="play those behind the ones in played.json, and add them")
    parser.add_argument("--mutate", choices=[*RED, *MASKED], help="break the core on purpose")
    parser.add_argument("--replay", type=int, metavar="SEED", help="play one schedule and say how it went")
    parser.add_argument("--verbose", action="store_true", help="with --replay: print the whole transcript")
    return parser.parse_args()


if __name__ == "__main__":
    chosen = _arguments()
    if chosen.replay is None:
        sys.exit(main(chosen.seed, chosen.runs, chosen.mutate, chosen.minutes, adds_up=chosen.add))
    text, held = story(draw(chosen.replay), chosen.mutate)
    print(text if chosen.verbose or not held else f"seed {chosen.replay}: every invariant holds")
    sys.exit(not held)
