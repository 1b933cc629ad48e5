"""`python -m tests.fuzz`: draw bodies from a seed, and compare what router, nodes and SDK make of them."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from tests.store.server import RedisServer, running

from . import readers, rounds


async def _rounds(seed: int, seconds: float) -> tuple[int, list[str]]:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, running(RedisServer()) as redis:
        async with rounds.positions(Path(folder), redis) as at:
            return await rounds.run(seed, seconds, at)


def main() -> int:
    """Run each part for its seconds; the exit code says whether anything differed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="seconds for each part (60)")
    parser.add_argument("--minutes", type=float, help="minutes for all parts together, in place of --seconds")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (1)")
    parser.add_argument("--part", choices=["readers", "rounds"], help="one part alone")
    chosen = parser.parse_args()
    logging.disable(logging.WARNING)
    seconds = chosen.seconds if chosen.minutes is None else 30 * chosen.minutes
    differences = 0
    for part in ("readers", "rounds"):
        if chosen.part in (None, part):
            run = readers.run(chosen.seed, seconds) if part == "readers" else None
            count, found = run or asyncio.run(_rounds(chosen.seed, seconds))
            differences += len(found)
            print(*found[:20], f"{part}: {count} from seed {chosen.seed} on, {len(found)} differ", sep="\n", flush=True)
    return differences > 0


if __name__ == "__main__":
    sys.exit(main())
