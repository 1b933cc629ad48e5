"""Plays generated conversations on both paths, and tells of the first difference:
`python -m tests.ordinary --requests 20000 --seed 1 [--redis]`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from tests.kit.redis_server import RedisServer
from tests.ordinary.equality import Tally, compared, drained


async def _play(requests: int, seed: int) -> Tally:
    server = RedisServer()
    server.start()
    try:
        alone = await compared(requests // 3, seed)
        shared = await compared(requests // 3, seed + 1, server.url)
        leaving = await drained(requests // 3, seed + 2)
    finally:
        server.remove()
    return alone + shared + leaving


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    tally = asyncio.run(_play(chosen.requests, chosen.seed))
    print(tally.told())
    return 0 if tally.is_good() else 1


if __name__ == "__main__":
    sys.exit(main())
