"""The generator of section `kinds`: what a call of each kind of handler costs, in this process and without sockets.

Both servers of a kind are open at once and take turns, so that a slower clock of the processor slows down both. It
prints a JSON list with a `Cost` for each kind.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import uvloop

from framehold_loadtest.bench.generators.in_process import Local
from framehold_loadtest.bench.subjects.kinds import KINDS, Kind, app_of
from framehold_loadtest.client import rounds
from framehold_loadtest.client.connection import CallError

WARM = 30
"""Calls at each server before the first turn."""


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU of a call, in seconds: the median of the turns. `ratios` are those of each turn, theirs to ours."""

    kind: str
    ours: float
    theirs: float
    ratios: list[float]


async def _call(app: Local, kind: Kind) -> None:
    """Make a call, and answer what it asks. Raises CallError."""
    if kind.method == "resources/read":
        params: dict[str, Any] = {"uri": kind.name}
    else:
        params = {"name": kind.name, "arguments": {"location": "Oslo"}}
    result = await _round(app, kind, params)
    if result.get("resultType") == "input_required":
        answer = {"action": "accept", "content": {"units": "C"}}
        more = {"inputResponses": dict.fromkeys(result["inputRequests"], answer)}
        if "requestState" in result:
            more["requestState"] = result["requestState"]
        result = await _round(app, kind, params | more)
    if "21 C" not in json.dumps(result) or result.get("isError"):
        raise CallError(f"a wrong result: {str(result)[:200]}")


async def _round(app: Local, kind: Kind, params: Mapping[str, Any]) -> Mapping[str, Any]:
    message = rounds.begin(1, kind.name, {})
    message |= {"method": kind.method, "params": {"_meta": message["params"]["_meta"], **params}}
    body = json.dumps(message).encode()
    fields = rounds.fields(kind.name) | {"mcp-method": kind.method, "authorization": "Bearer bench"}
    fields |= {"host": "127.0.0.1:80", "content-length": str(len(body))}
    found = await app.handle([(name.lower().encode(), value.encode()) for name, value in fields.items()], body)
    reply = json.loads(found.body)
    if "result" not in reply:
        raise CallError(str(reply)[:200])
    result: Mapping[str, Any] = reply["result"]
    return result


async def _cost(name: str, kind: Kind, turns: int, calls: int) -> Cost:
    spent: tuple[list[float], list[float]] = ([], [])
    async with contextlib.AsyncExitStack() as stack:
        apps = list[Local]()
        for is_ours in (True, False):
            app, lifespan = app_of(kind.ours() if is_ours else kind.theirs(), kind, is_ours=is_ours)
            await stack.enter_async_context(lifespan)
            apps.append(Local(app))
            for _ in range(WARM):
                await _call(apps[-1], kind)
        for _ in range(turns):
            for app, of_turn in zip(apps, spent, strict=True):
                began = time.process_time()
                for _ in range(calls):
                    await _call(app, kind)
                of_turn.append((time.process_time() - began) / calls)
    ours, theirs = spent
    return Cost(name, median(ours), median(theirs), [b / a for a, b in zip(ours, theirs, strict=True)])


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, required=True)
    parser.add_argument("--calls", type=int, required=True)
    options = parser.parse_args()
    found = [
        asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_cost(name, kind, options.turns, options.calls))
        for name, kind in KINDS.items()
    ]
    print(json.dumps([asdict(one) for one in found]))


if __name__ == "__main__":
    main()
