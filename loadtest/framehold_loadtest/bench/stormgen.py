"""The generator of section `survival`, a process of its own: parks calls on one node, ends that node, and answers all
of them at once through what is left.

Law: what it counts is what a client saw; what was done is counted elsewhere, in the ledger.
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
from dataclasses import asdict, dataclass

import uvloop

from framehold_loadtest.bench import wire

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

    async def finish(self, call: wire.Call, question: wire.Question) -> bool:
        """Whether the call ended as it should; False for any other end. Refusals and cut connections are tried again,
        as any client does."""
        request = wire.second_round(self._port, call, question)
        while True:
            try:
                reply = await self._ask(request)
            except (ConnectionError, asyncio.IncompleteReadError):
                reply = wire.Reply(503, b"")
            if reply.status not in (502, 503, 504) and not _unavailable(reply):
                break
            self.refused += 1
            await asyncio.sleep(_PAUSE)
        try:
            wire.check_result(reply, call)
        except wire.CallError as error:
            print(f"call {call.number}: {error}", file=sys.stderr)
            return False
        return True

    async def _ask(self, request: bytes) -> wire.Reply:
        """One exchange on a connection of its own: JSON, or an event stream whose last event is the reply."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            writer.write(request.replace(b"connection: keep-alive", b"connection: close", 1))
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.read()
        finally:
            writer.close()
        if b"text/event-stream" in head.lower():
            events = [line for line in body.split(b"\r\n") if line.startswith(b"data: ")]
            body = events[-1].removeprefix(b"data: ") if events else b""
        elif b"transfer-encoding: chunked" in head.lower():
            body = b"".join(body.split(b"\r\n")[1::2])
        return wire.Reply(int(head[9:12]), body)


def _unavailable(reply: wire.Reply) -> bool:
    """Whether an event stream ended with what would have been a 503."""
    return b'"code":-32603' in reply.body


async def _park(port: int, count: int) -> list[tuple[wire.Call, wire.Question]]:
    parked: list[tuple[wire.Call, wire.Question]] = []
    numbers = iter(range(1, count + 1))

    async def work(channel: wire.Channel) -> None:
        for number in numbers:
            call = wire.make_call(number)
            parked.append((call, wire.read_question(await channel.request(wire.first_round(port, call)))))
        channel.close()

    await asyncio.gather(*[work(await wire.Channel.connect(port)) for _ in range(_CHANNELS)])
    return parked


async def _run(options: argparse.Namespace) -> Storm:
    parked = await _park(options.park, options.calls)
    os.kill(options.node, signal.Signals[options.signal])
    while options.signal == "SIGTERM" and os.path.exists(f"/proc/{options.node}/fd/0"):
        await asyncio.sleep(0.001)
    began = time.perf_counter()
    callers = [Caller(options.port) for _ in parked]
    took: list[float] = []

    async def finish(caller: Caller, call: wire.Call, question: wire.Question) -> bool:
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
    except (wire.CallError, OSError) as error:
        sys.exit(f"the storm failed: {error}")
    print(json.dumps(asdict(storm)))


if __name__ == "__main__":
    main()
