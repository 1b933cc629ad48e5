"""The generator of the strategies' CPU figures, a process of its own: two-round calls on 32 connections to each server.

All servers run at once and take short turns of the same number of calls, so that a slow moment of the machine hits all
of them. It prints one JSON list of `Traded`, in the order of the sites.

Law: a figure stands for calls that all came to their right result. A site's first call that doesn't ends its turns, and
its figure is the reason.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import uvloop

from framehold_loadtest.bench import wire
from framehold_loadtest.bench.children import cpu_seconds
from framehold_loadtest.bench.loadgen import complete_call

_WARM_CALLS = 400
_LEAD_CALLS = 32  # before each turn: the one before has left the caches to another server
_TURN_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Traded:
    """One site's turns, in seconds over a turn's calls; `store_cpu` 0 without Redis. `failure`: no figure."""

    seconds: list[float] = field(default_factory=list)
    server_cpu: list[float] = field(default_factory=list)
    store_cpu: list[float] = field(default_factory=list)
    load_cpu: list[float] = field(default_factory=list)
    failure: str = ""


@dataclass(slots=True)
class Site:
    """A server, its Redis (0: none), its connections, and what came of its turns so far."""

    port: int
    server: int
    store: int
    channels: list[wire.Channel] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    traded: Traded = field(default_factory=Traded)

    async def open(self, connections: int) -> None:
        """Connect, and warm the server up."""
        self.channels = [await wire.Channel.connect(self.port) for _ in range(connections)]
        await self.turn(_WARM_CALLS, counted=False)

    async def turn(self, calls: int, *, counted: bool) -> None:
        """Complete so many calls, and note what they cost if that is `counted`; nothing once there was a failure."""
        if self.traded.failure:
            return
        quota = iter(range(calls))
        before = self._now()
        try:
            async with asyncio.timeout(_TURN_SECONDS):
                await asyncio.gather(*(self._work(channel, quota) for channel in self.channels))
        except (wire.CallError, OSError) as error:
            list(quota)  # so that the other connections stop, too
            self.traded = Traded(failure=str(error) or f"a turn did not end within {_TURN_SECONDS:.0f} s")
            return
        if counted:
            found = self.traded
            columns = (found.seconds, found.server_cpu, found.store_cpu, found.load_cpu)
            for column, start, end in zip(columns, before, self._now(), strict=True):
                column.append(end - start)

    async def _work(self, channel: wire.Channel, quota: Iterator[int]) -> None:
        for _ in quota:
            await complete_call(channel, self.port, wire.make_call(next(self.numbers)))

    def _now(self) -> tuple[float, float, float, float]:
        store = cpu_seconds(self.store) if self.store else 0.0
        return time.perf_counter(), cpu_seconds(self.server), store, time.process_time()


async def _run(options: argparse.Namespace) -> list[Traded]:
    sites = [Site(*numbers) for numbers in options.site]
    for site in sites:
        await site.open(options.connections)
    for _ in range(options.turns):
        for site in sites:
            await site.turn(_LEAD_CALLS, counted=False)
            await site.turn(options.calls, counted=True)
    return [site.traded for site in sites]


def main() -> None:
    """Complete the calls, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    site = ("PORT", "PID", "STORE")
    parser.add_argument("--site", type=int, nargs=3, metavar=site, action="append", required=True, help="STORE: a pid")
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--turns", type=int, required=True, help="of each server")
    parser.add_argument("--calls", type=int, required=True, help="in each turn")
    options = parser.parse_args()
    gc.disable()  # as in loadgen
    try:
        traded = uvloop.run(_run(options))
    except OSError as error:
        sys.exit(f"no figure: {error}")
    print(json.dumps([asdict(one) for one in traded]))


if __name__ == "__main__":
    main()
