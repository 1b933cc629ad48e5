"""The generator of section `single`: calls one at a time, on one kept connection to each site; the sites take turns.

No request waits for another, so what is measured is what a round takes, and nothing that load makes cheaper. It prints
one JSON list with the `Rounds` of each site.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from statistics import median

import uvloop

from framehold_loadtest.bench.generators import weather
from framehold_loadtest.bench.generators.calls import Site, complete_call
from framehold_loadtest.client.connection import CallError, Connection

_WARM_CALLS = 100
_ROUNDS = 2


@dataclass(slots=True)
class Rounds:
    """What a round took at one site, a value for each turn: the median of its seconds, and the CPU seconds of each
    process that takes part."""

    p50: list[float] = field(default_factory=list)
    server_cpu: list[float] = field(default_factory=list)
    router_cpu: list[float] = field(default_factory=list)
    store_cpu: list[float] = field(default_factory=list)


async def _turn(site: Site, channel: Connection, calls: int, numbers: Iterator[int], rounds: Rounds) -> None:
    times: list[float] = []
    before = site.spent()
    for number in itertools.islice(numbers, calls):
        times += await complete_call(channel, site.port, weather.make_call(number))
    spent = [(late - early) / (_ROUNDS * calls) for early, late in zip(before, site.spent(), strict=True)]
    rounds.p50.append(median(times))
    for values, value in zip((rounds.server_cpu, rounds.store_cpu, rounds.router_cpu), spent, strict=True):
        values.append(value)


async def _run(options: argparse.Namespace) -> list[Rounds]:
    numbers = itertools.count(1)
    sites = [Site(*numbers_of) for numbers_of in options.site]
    channels = [await Connection.open(site.port) for site in sites]
    found = [Rounds() for _ in sites]
    for site, channel in zip(sites, channels, strict=True):
        await _turn(site, channel, _WARM_CALLS, numbers, Rounds())
    for _ in range(options.turns):
        for site, channel, rounds in zip(sites, channels, found, strict=True):
            await _turn(site, channel, options.calls, numbers, rounds)
    for channel in channels:
        channel.close()
    return found


def main() -> None:
    """Run the calls, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ("PORT", "SERVER", "STORE", "ROUTER")
    parser.add_argument("--site", nargs=4, type=int, action="append", required=True, metavar=names)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--calls", type=int, required=True, help="at each site in a turn")
    options = parser.parse_args()
    gc.disable()  # as in generators.calls
    try:
        found = uvloop.run(_run(options))
    except (CallError, OSError) as error:
        sys.exit(f"no figure: {error}")
    print(json.dumps([asdict(rounds) for rounds in found]))


if __name__ == "__main__":
    main()
