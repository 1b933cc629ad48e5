"""Section `replay`: what one `once` costs, which a replay need not repeat.

An effect under `once` is compared with the same effect run directly, which does nothing, in one process on the measured
core, without HTTP; only Redis is another. A batch is one call, or 32 calls at once whose writes share the group commit.
Each call has one effect under `once`, so that it has a record, then 20 more effects: under `once` in one batch,
directly in the next. A twentieth of the difference is the cost of one. `framehold bench tradeoff` measures whole calls,
held and replayed, and section `survival` what it takes to carry on the calls of a node that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple

from framehold_loadtest.bench import child, weather
from framehold_loadtest.bench.in_process import PORT, Local, local, scripted
from framehold_loadtest.local.listeners import Cores, redis_server
from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.local.usage import cpu_seconds

EFFECTS = 20
"""In a row in a call: the cost of a write in memory grows with the journal, so they are few."""
TOGETHER = 32
_WARM = 3
_SPARE_SECONDS = 60.0
_SECONDS_PER_REPETITION = 5.0  # on a slow machine
_UNDER_ONCE, _DIRECTLY = scripted(1 + EFFECTS, 0), scripted(1, 0, direct=EFFECTS)


def measure(repetitions: int, cores: Cores) -> dict[str, Any]:
    """With Redis where there is one.

    Raises:
        NotAvailable: the calls can't be made.
    """
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        given = {"repetitions": repetitions}
        try:
            store = stack.enter_context(redis_server(cores.load))
            given |= {"port": store.port, "store": store.pid}
        except NotAvailable as reason:
            missing["once, Redis"] = str(reason)
        rows = child.run(once, cores.server, _SPARE_SECONDS + _SECONDS_PER_REPETITION * repetitions, **given)
    return {"plan": given, "rows": rows, "not_available": missing}


class Instant(NamedTuple):
    """Counters, before or after a batch; `writes` are those that reached the store."""

    wall: float
    cpu: float
    store_cpu: float
    writes: float


@dataclass(frozen=True, slots=True)
class Site:
    """An open server, and the process id of its Redis; 0 in memory."""

    app: Local
    store: int

    async def batch(self, call: weather.Call, count: int) -> Instant:
        """What so many calls at once took."""
        data, before = weather.first_round(PORT, call), self._now()
        replies = await asyncio.gather(*(self.app.request(data) for _ in range(count)))
        after = self._now()
        for reply in replies:
            weather.check_result(reply, call)
        return Instant(*(end - start for start, end in zip(before, after, strict=True)))

    def _now(self) -> Instant:
        redis = cpu_seconds(self.store) if self.store else 0.0
        return Instant(time.perf_counter(), time.process_time(), redis, self.app.writes)


async def once(repetitions: int, port: int = 0, store: int = 0) -> list[dict[str, Any]]:
    """A row for each store and number of calls at once; that of Redis if there is one at a port. Seconds beyond the
    effect."""
    settings: dict[str, dict[str, Any]] = {"memory": {}}
    if port:
        settings["Redis"] = {"store_url": f"redis://127.0.0.1:{port}", "keys": (secrets.token_hex(32),)}
    async with AsyncExitStack() as stack:
        sites = {name: Site(await stack.enter_async_context(local(**chosen)), store if chosen else 0)
                 for name, chosen in settings.items()}  # fmt: skip
        found: dict[tuple[str, int], list[Instant]] = {(name, calls): [] for name in sites for calls in (1, TOGETHER)}
        for repetition in range(_WARM + repetitions):
            for (name, calls), differences in found.items():
                without = await sites[name].batch(_DIRECTLY, calls)
                under = await sites[name].batch(_UNDER_ONCE, calls)
                if repetition >= _WARM:
                    pairs = zip(under, without, strict=True)
                    differences.append(Instant(*((more - less) / (EFFECTS * calls) for more, less in pairs)))
    return [_row(name, calls, differences) for (name, calls), differences in found.items()]


def _row(store: str, calls: int, differences: Sequence[Instant]) -> dict[str, Any]:
    wall, cpu, store_cpu, writes = zip(*differences, strict=True)
    costs = {"wall": wall, "cpu": cpu, "store_cpu": median(store_cpu), "writes": max(writes)}
    return {"store": store, "calls": calls, **costs}
