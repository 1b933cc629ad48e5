"""The generator of section `survival`: it parks calls on one node, ends that node, and answers all calls at once.

Law: it counts only what a client sees. The server writes each effect to a ledger, which section `survival` counts.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import signal
import sys
import time
from dataclasses import asdict, dataclass, replace

import uvloop

from framehold_loadtest.bench.generators import weather
from framehold_loadtest.client import rounds
from framehold_loadtest.client.connection import CallError, Connection, Response
from framehold_loadtest.client.rounds import Asked, Refused

_CHANNELS = 32
GIVES_UP = 240.0
"""Seconds after which a call counts as lost."""
_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Storm:
    """Times in seconds from the end of the node (for a drain: from the end of its process)."""

    calls: int
    finished: int
    wrong: int
    refused: int
    first: float
    median: float
    last: float


class Caller:
    """Sends the last round of one call until it is answered."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.refused = 0

    async def finish(self, call: weather.Call, asked: Asked) -> bool:
        """Whether the call ended with its right result. A refused or cut request is sent again, as any client does."""
        request = weather.second_round(self._port, call, asked, last=True)
        while True:
            reply = await self._ask(request)
            kind = reply.fields.get("content-type", "")
            read = rounds.read(reply.status, kind, reply.body)
            if not (isinstance(read, Refused) and read.again):
                break
            self.refused += 1
            await asyncio.sleep(_PAUSE)
        try:
            weather.check_result(replace(reply, body=rounds.payload(kind, reply.body)), call)
        except CallError as error:
            print(f"call {call.number}: {error}", file=sys.stderr)
            return False
        return True

    async def _ask(self, request: bytes) -> Response:
        """One exchange on a connection of its own; status 0 if it was cut off."""
        try:
            connection = await Connection.open(self._port)
            try:
                return await connection.request(request)
            finally:
                connection.close()
        except ConnectionError:
            return Response(0, b"")


async def _park(port: int, count: int) -> list[tuple[weather.Call, Asked]]:
    parked: list[tuple[weather.Call, Asked]] = []
    numbers = iter(range(1, count + 1))

    async def work(channel: Connection) -> None:
        for number in numbers:
            call = weather.make_call(number)
            parked.append((call, weather.read_question(await channel.request(weather.first_round(port, call)))))
        channel.close()

    await asyncio.gather(*[work(await Connection.open(port)) for _ in range(_CHANNELS)])
    return parked


async def _run(options: argparse.Namespace) -> Storm:
    parked = await _park(options.park, options.calls)
    os.kill(options.node, signal.Signals[options.signal])
    while options.signal == "SIGTERM" and os.path.exists(f"/proc/{options.node}/fd/0"):
        await asyncio.sleep(0.001)
    began = time.perf_counter()
    callers = [Caller(options.port) for _ in parked]
    took: list[float] = []

    async def finish(caller: Caller, call: weather.Call, question: Asked) -> bool:
        ended = await caller.finish(call, question)
        took.append(time.perf_counter() - began)
        return ended

    work = [asyncio.create_task(finish(caller, *item)) for caller, item in zip(callers, parked, strict=True)]
    done, late = await asyncio.wait(work, timeout=GIVES_UP)
    for task in late:
        task.cancel()
    good = sum(task.result() for task in done)
    took.sort()
    refused = sum(caller.refused for caller in callers)
    return Storm(len(parked), good, len(done) - good, refused, took[0], took[len(took) // 2], took[-1])


def main() -> None:
    """Make one storm, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--park", type=int, required=True, help="the port that the calls are begun at")
    parser.add_argument("--node", type=int, required=True, help="the process that is ended then")
    parser.add_argument("--signal", choices=("SIGKILL", "SIGTERM"), default="SIGKILL")
    parser.add_argument("--port", type=int, required=True, help="the port that they are answered at")
    parser.add_argument("--calls", type=int, required=True)
    options = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()
    try:
        storm = uvloop.run(_run(options))
    except (CallError, OSError) as error:
        sys.exit(f"the storm failed: {error}")
    print(json.dumps(asdict(storm)))


if __name__ == "__main__":
    main()
