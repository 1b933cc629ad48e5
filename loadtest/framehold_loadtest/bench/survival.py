"""Section `survival`: what a client sees when the node of its call is gone, and what that costs the next node.

Each row is a small fleet of its own: Redis, two nodes and a router. Calls are parked on the first node, that node is
ended, and all calls are answered at once through the router. The calls of a storm have two nodes that carry them on,
each on a core. The ledger counts the effects.

Law: the load counts only what a client sees.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import resource
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from framehold_loadtest import ledger, served
from framehold_loadtest.bench import child
from framehold_loadtest.bench.servers import framehold_router, settings
from framehold_loadtest.client import rounds, trip
from framehold_loadtest.client.connection import CallError, Connection, post
from framehold_loadtest.client.rounds import Asked, Done, Refused
from framehold_loadtest.local.listeners import Cores, announced, framehold_port, redis_server
from framehold_loadtest.local.process import NotAvailable, Process, python

TTL = 1.0
"""Seconds of a node's lease."""
ROUNDS = 2
"""Of one call, with its two effects under `once`."""
GIVES_UP = 240.0
"""Seconds after which a call counts as lost."""
_SERVER = Path(served.__file__).with_name("booking.py")
_SPARE_SECONDS = 60.0
_CHANNELS = 32
_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Storm:
    """How many calls came to their right end, and the times of the first and the last of these in seconds from the end
    of the node (for a drain: from the end of its process), GIVES_UP if there is none."""

    calls: int
    finished: int
    refused: int
    first: float
    last: float


def measure(turns: int, calls: int, cores: Cores) -> dict[str, Any]:
    """One call after SIGKILL and after SIGTERM, so many times; then a storm of so many calls."""
    rows: list[dict[str, Any]] = []
    missing: dict[str, str] = {}
    for way, times, at_once in (("SIGKILL", turns, 1), ("SIGTERM", turns, 1), ("SIGKILL", 1, calls)):
        try:
            rows.append(_row(way, [_storm(way, at_once, cores) for _ in range(times)]))
        except NotAvailable as reason:
            missing[f"{at_once} calls, {way}"] = str(reason)
    return {"ttl": TTL, "rows": rows, "not_available": missing}


def _row(way: str, seen: Sequence[tuple[Storm, Counter[str]]]) -> dict[str, Any]:
    """One way to end a node. Seconds until the first and the last right end, medians over the turns; `finished` is of
    the worst turn."""
    storms = [one for one, _ in seen]
    calls = storms[0].calls
    wanted = calls * len(ledger.EFFECTS)
    lost = sum(storm.calls - storm.finished for storm in storms) + sum(wanted - len(done) for _, done in seen)
    twice = sum(times > 1 for _, done in seen for times in done.values())
    return {
        "way": way,
        "turns": len(seen),
        "calls": calls,
        "finished": min(storm.finished for storm in storms),
        "first": median(storm.first for storm in storms),
        "slowest": max(storm.first for storm in storms),
        "last": median(storm.last for storm in storms),
        "refused": sum(storm.refused for storm in storms),
        "lost": lost,
        "twice": twice,
        "errors": {name: count for name, count in (("lost", lost), ("effects twice", twice)) if count},
    }


def _storm(way: str, calls: int, cores: Cores) -> tuple[Storm, Counter[str]]:
    """One fleet and one storm, and how often each effect was done."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        store = stack.enter_context(redis_server(cores.load))
        noted = folder / "ledger"
        common = {**settings(store), "FRAMEHOLD_LEASE_TTL": str(TTL), "LOADTEST_LEDGER": str(noted)}
        common |= {"LOADTEST_KEYED": "false"}
        places = {"a": cores.server, "b": cores.server, **({"c": cores.load} if calls > 1 else {})}
        nodes = [stack.enter_context(_node(name, core, common)) for name, core in places.items()]
        router = stack.enter_context(framehold_router(cores.load, common, len(nodes)))
        first = nodes[0]
        # Parked on the first, and it alone: whatever the router would have chosen.
        given = {"first": first.port, "node": first.pid, "way": way, "port": router.port, "calls": calls}
        found = Storm(**child.run(storm, cores.load, GIVES_UP + _SPARE_SECONDS, **given))
        return found, Counter(line.rpartition(" ")[0] for line in ledger.read(noted))


@contextlib.contextmanager
def _node(name: str, core: int, common: dict[str, str]) -> Iterator[Process]:
    argv = python("framehold", "node", str(_SERVER), "--port", "0")
    with announced(argv, core, {**common, "FRAMEHOLD_NODE_ID": name}, framehold_port) as node:
        yield node


# ---- what runs in the process of the load


async def storm(first: int, node: int, way: str, port: int, calls: int) -> Storm:
    """Park calls at the port of the first node, end this node by the signal `way`, and answer all calls at once at the
    port of the router."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()
    parked = await _park(first, [f"call-{number}" for number in range(calls)])
    os.kill(node, signal.Signals[way])
    while way == "SIGTERM" and os.path.exists(f"/proc/{node}/fd/0"):
        await asyncio.sleep(0.001)
    began = time.perf_counter()
    refused: Counter[str] = Counter()

    async def finish(name: str, question: Asked) -> float | None:
        ended = await _finish(port, name, question, refused)
        return time.perf_counter() - began if ended else None

    work = [asyncio.create_task(finish(*item)) for item in parked]
    done, late = await asyncio.wait(work, timeout=GIVES_UP)
    for task in late:
        task.cancel()
    took = [seconds for task in done if (seconds := task.result()) is not None]
    soonest, latest = min(took, default=GIVES_UP), max(took, default=GIVES_UP)
    return Storm(len(parked), len(took), refused.total(), soonest, latest)


async def _park(port: int, names: Sequence[str]) -> list[tuple[str, Asked]]:
    parked: list[tuple[str, Asked]] = []
    left = iter(names)

    async def work(channel: Connection) -> None:
        for name in left:
            reply = await channel.request(post(port, trip.FIELDS, trip.begin(name, ROUNDS)))
            found = rounds.read(reply.status, reply.fields.get("content-type", ""), reply.body)
            if not isinstance(found, Asked):
                raise CallError(f"{name} was not parked: {found}")
            parked.append((name, found))
        channel.close()

    await asyncio.gather(*[work(await Connection.open(port)) for _ in range(_CHANNELS)])
    return parked


async def _finish(port: int, name: str, asked: Asked, refused: Counter[str]) -> bool:
    """Whether the call ended with its right result. A refused or cut request is sent again, as any client does."""
    request = post(port, trip.FIELDS | {"connection": "close"}, trip.retry(2, name, ROUNDS, asked))
    while True:
        status, kind, body = 0, "", b""
        with contextlib.suppress(ConnectionError):
            connection = await Connection.open(port)
            try:
                reply = await connection.request(request)
                status, kind, body = reply.status, reply.fields.get("content-type", ""), reply.body
            finally:
                connection.close()
        found = rounds.read(status, kind, body)
        if not (isinstance(found, Refused) and found.again):
            break
        refused[name] += 1
        await asyncio.sleep(_PAUSE)
    if not isinstance(found, Done) or found.failed or found.text != trip.expected(name, ROUNDS):
        print(f"{name}: {found}", file=sys.stderr)
        return False
    return True
