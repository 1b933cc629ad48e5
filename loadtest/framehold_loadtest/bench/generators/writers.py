"""The generator of section `store`: the two writes of a two-round call, over and over, on 32 lanes.

It uses `Store.submit`, as the node's hot path does. The content of a write is made once, ahead of time, so that only
the cost of the adapter is measured. It prints one `Written`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import uvloop

from framehold_core import journal
from framehold_core.ending import COMPLETED
from framehold_core.errors import StoreUnavailable
from framehold_core.ids import Boot, CallId, Incarnation, NodeId
from framehold_core.journal import Draft, Kind, Lane
from framehold_core.requests import Answered, Batch, Commit, Fence, Finish, Head, Reply, Request, Verdict
from framehold_loadtest.local.usage import cpu_seconds
from framehold_loadtest.stats import percentile
from framehold_store import Store, StoreConfig, open_store

LANES = 32
_WARM_SECONDS = 0.5
_SLICES = 10
_GRACE_SECONDS = 3.0
_TTL = 600.0
_OWNER, _INC, _BOOT = NodeId("bench"), Incarnation("1"), Boot("1")
_ASK = Draft(Kind.ASK, "units", 1, Lane.MAIN, journal.fingerprint("Which units?"), "json", bytes(300))
_ENTRIES = (journal.encode(journal.entry(0, _ASK, _ASK.value)),)
_BATCH = Batch(_ENTRIES, journal.chain(journal.GENESIS, _ENTRIES))
_HEAD = Head(_BOOT, False, "weather", "0" * 32, "tools/call", "weather", "0" * 32, "")
_ANSWERED = Answered(1, "0" * 32, ("units",))
_OUTCOME = bytes(250)
_NO_CALL = CallId("")


@dataclass(frozen=True, slots=True)
class Written:
    """One run; seconds per write, `p50` and `p99` of a single write among the others, errors by kind. `slices` are the
    client's CPU per write in each of some equal parts of the window."""

    writers: int
    writes: int
    wall_per_write: float
    cpu_per_write: float
    slices: list[float]
    store_cpu_per_write: float
    p50: float
    p99: float
    errors: dict[str, int]


@dataclass(slots=True)
class Tally:
    """What the lanes have seen so far."""

    latencies: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    stopping: bool = False
    ended: int = 0


@dataclass(slots=True)
class LaneOfWrites:
    """One writer: sends its next write when the last one is acknowledged, and stops at the first that is not."""

    store: Store
    numbers: Iterator[int]
    tally: Tally
    call: CallId = _NO_CALL
    parked: bool = False
    began: float = 0.0

    def send(self) -> None:
        """Submit the next write."""
        self.began = time.perf_counter()
        self.store.submit(self._next(), self._acknowledged)

    def _next(self) -> Request:
        if self.parked:
            return Finish(self.call, Fence(_OWNER, _INC, 1, 1, 1), _OUTCOME, COMPLETED, _TTL, _ANSWERED)
        self.call = CallId(f"{next(self.numbers):032x}")
        return Commit(self.call, Fence(_OWNER, _INC, 1, 0, 0), _BATCH, _TTL, head=_HEAD)

    def _acknowledged(self, reply: Reply | StoreUnavailable) -> None:
        if isinstance(reply, StoreUnavailable) or reply.verdict is not Verdict.OK:
            self.tally.errors[str(reply) if isinstance(reply, StoreUnavailable) else reply.verdict.value] += 1
            self.tally.ended += 1
            return
        self.tally.latencies.append(time.perf_counter() - self.began)
        self.parked = not self.parked
        if self.tally.stopping:
            self.tally.ended += 1
        else:
            self.send()


async def _end(store: Store, tally: Tally) -> None:
    """Let the writes under way come back, as far as they do, and close the store."""
    tally.stopping = True
    deadline = time.monotonic() + _GRACE_SECONDS
    while tally.ended < LANES and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    await store.close()


async def _run(options: argparse.Namespace) -> Written:
    store = open_store(StoreConfig(url=f"redis://127.0.0.1:{options.port}"), time.monotonic)
    await store.open()
    tally, numbers = Tally(), itertools.count(1)
    for _ in range(LANES):
        LaneOfWrites(store, numbers, tally).send()
    await asyncio.sleep(_WARM_SECONDS)
    before, began = len(tally.latencies), time.perf_counter()
    store_cpu, marks = cpu_seconds(options.store), [(before, time.process_time())]
    for _ in range(_SLICES):
        await asyncio.sleep(options.seconds / _SLICES)
        marks.append((len(tally.latencies), time.process_time()))
    writes, wall = marks[-1][0] - before, time.perf_counter() - began
    store_cpu = cpu_seconds(options.store) - store_cpu
    await _end(store, tally)
    if not writes:
        sys.exit(f"no write was acknowledged: {dict(tally.errors)}")
    window = tally.latencies[before : before + writes]
    return Written(
        writers=LANES,
        writes=writes,
        wall_per_write=wall / writes,
        cpu_per_write=(marks[-1][1] - marks[0][1]) / writes,
        slices=[
            (cpu - start) / (end - begun) for (begun, start), (end, cpu) in itertools.pairwise(marks) if end > begun
        ],
        store_cpu_per_write=store_cpu / writes,
        p50=percentile(window, 0.50),
        p99=percentile(window, 0.99),
        errors=dict(tally.errors),
    )


def main() -> None:
    """Write for some seconds, and print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--store", type=int, required=True, help="process id of the store")
    parser.add_argument("--seconds", type=float, required=True)
    print(json.dumps(asdict(uvloop.run(_run(parser.parse_args())))))


if __name__ == "__main__":
    main()
