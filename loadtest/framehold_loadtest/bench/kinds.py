"""Section `kinds`: what a call of each kind of handler costs, beside the same handler written by hand for the SDK.

There is no HTTP server in it: what is measured is what the apps themselves do. Both servers of a kind are open at once
and take turns, so that a slower clock of the processor slows down both.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

from framehold_loadtest.bench import child
from framehold_loadtest.bench.in_process import Local
from framehold_loadtest.client import rounds
from framehold_loadtest.client.connection import CallError
from framehold_loadtest.local.listeners import Cores
from framehold_loadtest.served.kinds import KINDS, Kind, app_of

WARM = 30
"""Calls at each server before the first turn."""
_SPARE_SECONDS = 120.0
_SECONDS_PER_CALL = 0.1  # of all kinds at both servers, on a slow machine


def measure(turns: int, calls: int, cores: Cores) -> dict[str, Any]:
    """So many calls at each server in each of so many turns. A row has the CPU of a call in seconds, the median of the
    turns, and the ratios of each turn, theirs to ours.

    Raises:
        NotAvailable: the calls can't be made.
    """
    seconds = _SPARE_SECONDS + _SECONDS_PER_CALL * turns * calls
    rows = child.run(costs, cores.server, seconds, turns=turns, calls=calls)
    return {"plan": {"turns": turns, "calls": calls}, "rows": rows}


async def costs(turns: int, calls: int) -> list[dict[str, Any]]:
    """The rows."""
    return [await _cost(name, kind, turns, calls) for name, kind in KINDS.items()]


async def _cost(name: str, kind: Kind, turns: int, calls: int) -> dict[str, Any]:
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
    ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
    return {"kind": name, "ours": median(ours), "theirs": median(theirs), "ratios": ratios}


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
