"""The generator of whole calls: two-round calls on 32 connections for a fixed time, at one server or at several in
turn.

It prints a JSON list with a list for each server: a `Measured` for each of its turns. Every final result is checked.
Every error counts, also one of the warm-up. The CPU of the server, of the router in front of it and of the store is
read at both ends of the same window.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import json
import pkgutil
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import uvloop

from framehold_loadtest.bench.generators import weather
from framehold_loadtest.client.connection import CallError, Connection
from framehold_loadtest.local.usage import cpu_seconds
from framehold_loadtest.stats import percentile

_GRACE_SECONDS = 5.0
_RECONNECT_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. CPU and window in seconds, latencies in seconds, errors by kind."""

    calls: int
    seconds: float
    server_cpu: float
    store_cpu: float
    load_cpu: float
    first_p50: float
    first_p99: float
    second_p50: float
    second_p99: float
    errors: dict[str, int]
    router_cpu: float = 0.0


@dataclass(slots=True)
class Tally:
    """What the workers of a run have seen so far."""

    first: list[float] = field(default_factory=list)
    second: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    stopping: bool = False


class Site(NamedTuple):
    """Where calls are made, and the processes that take part: 0 for one that isn't there."""

    port: int
    server: int
    store: int = 0
    router: int = 0

    def spent(self) -> list[float]:
        """CPU seconds of the server, the store and the router so far."""
        return [cpu_seconds(pid) if pid else 0.0 for pid in (self.server, self.store, self.router)]


@dataclass(frozen=True, slots=True)
class Instant:
    """Counters at one end of the window."""

    at: float
    calls: int
    server_cpu: float
    store_cpu: float
    load_cpu: float
    router_cpu: float


Complete = Callable[[Connection, int, weather.Call], Awaitable[tuple[float, float]]]
"""What runs one call on a channel to a port, checks its result, and returns the seconds of its two rounds."""


async def complete_call(channel: Connection, port: int, call: weather.Call) -> tuple[float, float]:
    """Run one call to its checked result, and return the seconds of its two rounds."""
    began = time.perf_counter()
    reply = await channel.request(weather.first_round(port, call))
    asked = time.perf_counter()
    question = weather.read_question(reply)
    resumed = time.perf_counter()
    reply = await channel.request(weather.second_round(port, call, question))
    done = time.perf_counter()
    weather.check_result(reply, call)
    return asked - began, done - resumed


async def _work(port: int, numbers: Iterator[int], tally: Tally, complete: Complete) -> None:
    channel: Connection | None = None
    while not tally.stopping:
        try:
            channel = channel or await Connection.open(port)
            first, second = await complete(channel, port, weather.make_call(next(numbers)))
        except CallError as error:
            tally.errors[str(error)] += 1
        except OSError as error:
            tally.errors[type(error).__name__] += 1
            channel = None
            await asyncio.sleep(_RECONNECT_SECONDS)
        else:
            tally.first.append(first)
            tally.second.append(second)
    if channel is not None:
        channel.close()


def _now(tally: Tally, site: Site) -> Instant:
    server, store, router = site.spent()
    return Instant(
        at=time.perf_counter(),
        calls=len(tally.second),
        server_cpu=server,
        store_cpu=store,
        load_cpu=time.process_time(),
        router_cpu=router,
    )


async def _turn(site: Site, complete: Complete, numbers: Iterator[int], options: argparse.Namespace) -> Measured:
    tally = Tally()
    work = [_work(site.port, numbers, tally, complete) for _ in range(options.connections)]
    workers = [asyncio.create_task(each) for each in work]
    await asyncio.sleep(options.warm)
    start = _now(tally, site)
    await asyncio.sleep(options.seconds)
    end = _now(tally, site)
    tally.stopping = True
    _, unanswered = await asyncio.wait(workers, timeout=_GRACE_SECONDS)
    if unanswered:
        tally.errors[f"unanswered {_GRACE_SECONDS:.0f} s after the end"] += len(unanswered)
    for worker in unanswered:
        worker.cancel()
    first, second = tally.first[start.calls : end.calls], tally.second[start.calls : end.calls]
    return Measured(
        calls=end.calls - start.calls,
        seconds=end.at - start.at,
        server_cpu=end.server_cpu - start.server_cpu,
        store_cpu=end.store_cpu - start.store_cpu,
        load_cpu=end.load_cpu - start.load_cpu,
        first_p50=percentile(first, 0.50),
        first_p99=percentile(first, 0.99),
        second_p50=percentile(second, 0.50),
        second_p99=percentile(second, 0.99),
        errors=dict(tally.errors),
        router_cpu=end.router_cpu - start.router_cpu,
    )


async def _run(options: argparse.Namespace) -> list[list[Measured]]:
    sites, numbers = [Site(*numbers) for numbers in options.site], itertools.count(1)
    complete: Complete = pkgutil.resolve_name(options.call) if options.call else complete_call
    found: list[list[Measured]] = [[] for _ in sites]
    for _ in range(options.turns):
        for site, measured in zip(sites, found, strict=True):
            measured.append(await _turn(site, complete, numbers, options))
    return found


def main() -> None:
    """Run the load against each server, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = ("PORT", "SERVER", "STORE", "ROUTER")
    parser.add_argument("--site", nargs=4, type=int, action="append", required=True, metavar=names)
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument(
        "--call", metavar="MODULE:FUNCTION", help="the `Complete` to use, where it isn't MCP that is spoken"
    )
    parser.add_argument("--warm", type=float, required=True, help="seconds before the window")
    parser.add_argument("--seconds", type=float, required=True, help="length of the window")
    options = parser.parse_args()
    gc.disable()  # a run is short and its garbage acyclic; a pass here would look like a slow server
    try:
        measured = uvloop.run(_run(options))
    except ProcessLookupError as error:
        sys.exit(f"a measured process ended during the run: {error}")
    print(json.dumps([[asdict(turn) for turn in turns] for turns in measured]))


if __name__ == "__main__":
    main()
