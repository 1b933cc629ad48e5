"""The generator of the router's latency: calls straight to a node, and calls through the router.

The two ways take turns, each on one kept connection and with one request at a time, so that no request waits for
another. It prints one `Hops`.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from statistics import median

import uvloop

from framehold_loadtest.bench.generators import weather
from framehold_loadtest.bench.generators.calls import complete_call
from framehold_loadtest.client.connection import CallError, Connection

_WARM_CALLS = 100


@dataclass(frozen=True, slots=True)
class Hops:
    """Medians of each round's seconds, one for each batch: of first and second rounds, straight and routed."""

    straight_first: list[float]
    routed_first: list[float]
    straight_second: list[float]
    routed_second: list[float]


async def _batch(
    straight: Connection, routed: Connection, options: argparse.Namespace, numbers: Iterator[int]
) -> list[float]:
    """The medians of a batch, in the order of `Hops`."""
    ways = [(straight, options.port), (routed, options.router)]
    times: list[tuple[float, ...]] = []
    for _ in range(options.batch_size):
        pair = [await complete_call(channel, port, weather.make_call(next(numbers))) for channel, port in ways]
        times.append((pair[0][0], pair[1][0], pair[0][1], pair[1][1]))
    return [median(column) for column in zip(*times, strict=True)]


async def _run(options: argparse.Namespace) -> Hops:
    numbers = itertools.count(1)
    straight, routed = await asyncio.gather(*map(Connection.open, (options.port, options.router)))
    for channel, port in ((straight, options.port), (routed, options.router)):
        for _ in range(_WARM_CALLS):
            await complete_call(channel, port, weather.make_call(next(numbers)))
    batches = [await _batch(straight, routed, options, numbers) for _ in range(options.batches)]
    for channel in (straight, routed):
        channel.close()
    return Hops(*(list(column) for column in zip(*batches, strict=True)))


def main() -> None:
    """Run the calls, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of the node")
    parser.add_argument("--router", type=int, required=True, help="port of the router in front of it")
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--batch-size", type=int, required=True, help="calls each way in a batch")
    options = parser.parse_args()
    gc.disable()  # as in generators.calls
    try:
        hops = uvloop.run(_run(options))
    except (CallError, OSError) as error:
        sys.exit(f"no figure: {error}")
    print(json.dumps(asdict(hops)))


if __name__ == "__main__":
    main()
