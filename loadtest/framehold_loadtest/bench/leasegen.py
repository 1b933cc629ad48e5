"""The generator of section `leases`, a process of its own: parks calls on nodes, then has a router list them.

It prints one JSON list of `Listing`. Law: the same question is asked one after the other, never while it is answered:
those who ask at the same moment would share an answer.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from dataclasses import asdict, dataclass
from statistics import median

import uvloop

from framehold_loadtest.bench import wire

_CHANNELS = 4
QUERIES = (
    ("first page", "limit=100"),
    ("first page of 1,000", "limit=1000"),
    ("first page, the latest first", "sort=began&descending=true&limit=100"),
    ("those that expire within a minute", "expiring=60&limit=100"),
    ("none: another tool's", "tool=none&limit=100"),
)


@dataclass(frozen=True, slots=True)
class Listing:
    """How long one question took, in seconds, and what was told: the items of a page, and of how many."""

    what: str
    asked: int
    seconds_p50: float
    seconds_max: float
    items: int
    total: int
    missing: int
    bytes: int


async def _park(port: int, calls: int) -> None:
    numbers = iter(range(1, calls + 1))

    async def work() -> None:
        channel = await wire.Channel.connect(port)
        for number in numbers:
            while True:
                try:
                    reply = await channel.request(wire.first_round(port, wire.make_call(number)))
                    wire.read_question(reply)
                    break
                except wire.CallError:
                    # A machine that is busy with other things loses a write now and then: that call is started anew.
                    await asyncio.sleep(0.1)
        channel.close()

    await asyncio.gather(*(work() for _ in range(_CHANNELS)))


async def _ask(port: int, what: str, query: str, times: int) -> Listing:
    channel = await wire.Channel.connect(port)
    request = wire.get(port, f"/api/v1/leases?{query}")
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        reply = await channel.request(request)
        seconds.append(time.perf_counter() - began)
    told = json.loads(reply.body)
    size = len(reply.body)
    channel.close()
    counts = len(told["items"]), told["total"], len(told["missing"])
    return Listing(what, times, median(seconds), max(seconds), *counts, size)


async def _follow(port: int, times: int) -> Listing:
    """Pages one after the other, each by the cursor of the one before."""
    channel = await wire.Channel.connect(port)
    seconds, after = [], ""
    for _ in range(times):
        began = time.perf_counter()
        reply = await channel.request(wire.get(port, f"/api/v1/leases?limit=100{after}"))
        seconds.append(time.perf_counter() - began)
        told = json.loads(reply.body)
        after = f"&after={told['next']}"
    channel.close()
    counts = len(told["items"]), told["total"], len(told["missing"])
    return Listing("further pages", times, median(seconds), max(seconds), *counts, len(reply.body))


async def _run(nodes: list[int], router: int, calls: int, times: int) -> list[Listing]:
    share = itertools.repeat(calls // len(nodes))
    await asyncio.gather(*map(_park, nodes, share))
    found = [await _ask(router, what, query, times) for what, query in QUERIES]
    return [*found, await _follow(router, times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", type=int, action="append", required=True, help="a node's port (repeatable)")
    parser.add_argument("--router", type=int, required=True, help="the router's port")
    parser.add_argument("--calls", type=int, required=True, help="calls to park, on all nodes together")
    parser.add_argument("--times", type=int, required=True, help="how often each question is asked")
    chosen = parser.parse_args()
    found = uvloop.run(_run(chosen.node, chosen.router, chosen.calls, chosen.times))
    print(json.dumps([asdict(item) for item in found]))


if __name__ == "__main__":
    main()
