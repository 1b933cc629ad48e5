"""The generator of the cost of `once`: an effect under `once` compared with the same effect run directly.

It runs the server in its own process and has no sockets but to Redis. A batch is one call, or 32 calls at once whose
writes share the group commit. Each call has one effect under `once`, so that it has a record, then 20 more effects:
under `once` in one batch, directly in the next. A twentieth of the difference is the cost of one `once`. The effect
does nothing. It prints one JSON list of `Batches`: of the store in memory and, with `--port`, of Redis.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import uvloop

from framehold_loadtest.bench.generators import weather
from framehold_loadtest.bench.generators.in_process import PORT, Local, local, scripted
from framehold_loadtest.local.usage import cpu_seconds

EFFECTS = 20
"""In a row in a call: the cost of a write in memory grows with the journal, so they are few."""
TOGETHER = 32
_UNDER_ONCE, _DIRECTLY = scripted(1 + EFFECTS, 0), scripted(1, 0, direct=EFFECTS)
_WARM = 3


@dataclass(slots=True)
class Batches:
    """Of each repetition, what one `once` took beyond its effect: seconds, and the writes that reached the store."""

    store: str
    calls: int
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    store_cpu: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)


class Instant(NamedTuple):
    """Counters, before or after a batch."""

    wall: float
    cpu: float
    store_cpu: float
    writes: float


@dataclass(frozen=True, slots=True)
class Site:
    """An open server, and the process id of its Redis; 0 in memory."""

    app: Local
    store: int

    def now(self) -> Instant:
        """The counters as they are."""
        redis = cpu_seconds(self.store) if self.store else 0.0
        return Instant(time.perf_counter(), time.process_time(), redis, self.app.writes)

    async def batch(self, call: weather.Call, count: int) -> Instant:
        """What so many calls at once took."""
        data = weather.first_round(PORT, call)
        before = self.now()
        replies = await asyncio.gather(*(self.app.request(data) for _ in range(count)))
        after = self.now()
        for reply in replies:
            weather.check_result(reply, call)
        return Instant(*(end - start for start, end in zip(before, after, strict=True)))


async def _compare(site: Site, batches: Batches, *, counted: bool) -> None:
    without = await site.batch(_DIRECTLY, batches.calls)
    under = await site.batch(_UNDER_ONCE, batches.calls)
    if not counted:
        return
    columns = (batches.wall, batches.cpu, batches.store_cpu, batches.writes)
    for column, more, less in zip(columns, under, without, strict=True):
        column.append((more - less) / (EFFECTS * batches.calls))


async def _run(options: argparse.Namespace) -> list[Batches]:
    async with AsyncExitStack() as stack:
        stores: dict[str, dict[str, Any]] = {"memory": {}}
        if options.port:
            url = f"redis://127.0.0.1:{options.port}"
            stores["Redis"] = {"store_url": url, "keys": (secrets.token_hex(32),)}
        sites: dict[str, Site] = {}
        for name, settings in stores.items():
            app = await stack.enter_async_context(local(**settings))
            sites[name] = Site(app, options.store if name == "Redis" else 0)
        found = [Batches(name, calls) for name in sites for calls in (1, TOGETHER)]
        for repetition in range(_WARM + options.repetitions):
            for batches in found:
                await _compare(sites[batches.store], batches, counted=repetition >= _WARM)
    return found


def main() -> None:
    """Run the effects, and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="of a Redis, if there is one")
    parser.add_argument("--store", type=int, default=0, help="its process id")
    parser.add_argument("--repetitions", type=int, required=True)
    print(json.dumps([asdict(batches) for batches in uvloop.run(_run(parser.parse_args()))]))


if __name__ == "__main__":
    main()
