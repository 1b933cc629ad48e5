"""What the verdict says while faults are mixed: each problem must have a fault that explains it, and each fault that
lasts must be named.

The law: what is true is what was done to the fleet (`Weather.faults`); no voice is asked for it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import httpx2
from redis.asyncio import Redis
from redis.exceptions import RedisError

from framehold_store.keys import Keys
from tests.fleet.faults import FaultyFleet
from tests.fleet.weather import Weather

_ENDS = ("node killed", "a tool calls os._exit")
_HUSHED = (*_ENDS, "node stopped", "node drained", "partition")
_STORE = ("store paused", "store killed")
HOUR, SOON = 3600.0, 30.0
EXPLAINS: dict[str, tuple[tuple[str, ...], float]] = {
    "node_lost": ((*_ENDS, "node stopped", "partition", *_STORE), HOUR),
    "nodes_dying": ((*_ENDS, "node stopped", "partition"), HOUR),
    "node_unreachable": (_HUSHED, SOON),
    "node_lapsed": (("node stopped", "partition", *_STORE), SOON),
    "heartbeat_late": (("node stopped", "partition", *_STORE), SOON),
    "loop_stood": (("node stopped",), 600.0 + SOON),
    "store_silent": (("partition", *_STORE), SOON),
    "store_refuses": (("store killed",), SOON),
    "store_slow": (("partition", "node stopped", *_STORE), 90.0),
    "no_live_node": ((*_HUSHED, *_STORE), SOON),
    "router_lost": (("router killed", *_STORE), HOUR),
    "calls_fail": (("a tool calls sys.exit", "a tool calls os._exit"), 600.0 + SOON),
    "tool_paused": (("a tool calls os._exit",), HOUR),
    "calls_stuck": (_ENDS, HOUR),
}
"""The faults that explain a problem, and for how many seconds after their end they do."""
NAMED = {"node killed": "node_lost", "a tool calls os._exit": "node_lost", "router killed": "router_lost"}
"""Faults that last, for nobody comes back under the same name, and the problem that must name each of them."""
PATIENCE = 60.0
"""Seconds after which a fault that lasts must be named."""


class Truth:
    """Compares the verdict of each router with what was done. `false` has the problems that nothing explains, `seen`
    counts the others by kind."""

    def __init__(self, made: FaultyFleet, weather: Weather) -> None:
        self._made, self._weather = made, weather
        self.false: dict[str, str] = {}
        self.seen: Counter[str] = Counter()
        self._named: set[tuple[str, str]] = set()
        self.belonged: set[str] = set()
        """The nodes that have had a lease: the store lists each for a minute after its end. A process that is killed
        before it has one was never a part of the fleet."""
        self.looks = 0

    async def watch(self) -> None:
        """Ask every router once a second, until cancelled."""
        store = Redis(port=self._made.redis.port, socket_timeout=1, decode_responses=True)
        async with httpx2.AsyncClient(timeout=5) as http, store:
            while True:
                with suppress(RedisError):
                    listed = await store.zrange(Keys(self._made.folder.name).nodes, 0, -1)
                    self.belonged.update(map(str, listed))
                for router in tuple(self._made.routers):
                    await self._ask(http, router.root)
                await asyncio.sleep(1)

    async def _ask(self, http: httpx2.AsyncClient, root: str) -> None:
        try:
            problems = (await http.get(f"{root}/api/v1/overview")).json()["problems"]
        except (httpx2.HTTPError, ValueError):
            return  # It was killed.
        self.looks += 1
        for problem in problems:
            self._judge(problem, time.monotonic())

    def _judge(self, problem: dict[str, Any], now: float) -> None:
        kind, node = str(problem["kind"]), str(problem.get("node") or "")
        faults, after = EXPLAINS.get(kind, ((), 0.0))
        if any(
            one.kind in faults and one.node in ("", node or one.node) and one.began <= now <= one.ended + after
            for one in self._weather.faults
        ):
            self.seen[kind] += 1
            self._named.add((kind, node))
        else:
            self.false.setdefault(f"{kind} {node}", str(problem["text"]))

    def silent(self) -> list[str]:
        """The faults that nobody has named in time. Routers are told by their number alone."""
        until = time.monotonic() - PATIENCE
        kinds = {kind for kind, _ in self._named}
        return [
            f"{one.kind} {one.node}".strip()
            for one in self._weather.faults
            if (kind := NAMED.get(one.kind)) is not None
            and one.ended < until
            and (not one.node or one.node in self.belonged)
            and ((kind, one.node) not in self._named if one.node else kind not in kinds)
        ]
