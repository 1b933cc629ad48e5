"""`python -m tests.memory`: attack a router and a node in memory cgroups of the chart's limits, position by position.

Each row starts a fleet of its own: one router (512 MiB), one node (1 GiB), one Redis. It says what was sent, what the
attacked process held before and at most, and how long another user's calls took meanwhile. A row fails if a process was
killed, if it took more than three times what was sent (for values: more than its share, FRAMEHOLD_MAX_BUFFERED), or if
the other user got no answer. Exit codes: 0 all rows hold; 1 not so; 2 this machine makes no memory cgroup.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.kit.client import Caller, Reply
from tests.kit.fleet import Fleet
from tests.kit.nodes import FrameholdProcess
from tests.kit.processes import Child
from tests.kit.redis_server import RedisServer, running
from tests.memory import positions
from tests.memory.group import NoGroup, group, resident
from tests.memory.positions import MIB, Row, rows

TARGET = "tests/memory/server.py:mcp"
LIMITS = {"router": 512 * MIB, "node": 1024 * MIB}
SLACK = 48 * MIB
"""Bytes that a process may take beside what it is sent: code that the first requests load, calls of other users."""
SHARE = 256 * MIB
"""Bytes that the values of all requests may take, with what is parked of one that is unmarked."""
TIMES = 3
LONGEST = 0.1
"""Seconds for which one request may keep an event loop from everything else."""


@dataclass
class Seen:
    """What a row came to, in bytes and seconds."""

    sent: int = 0
    before: int = 0
    peak: int = 0
    kills: int = 0
    ended: bool = False
    statuses: Mapping[int, int] = field(default_factory=dict)
    took: list[float] = field(default_factory=list)
    failed: int = 0
    stood: float = 0.0

    def faults(self, row: Row) -> list[str]:
        """Why the row does not hold."""
        most = SHARE if row.builds else TIMES * self.sent
        return [
            what
            for what, is_so in (
                ("killed for memory", self.kills > 0 or self.ended),
                (f"took {(self.peak - self.before) // MIB} MiB", self.peak - self.before > most + SLACK),
                (f"{self.failed} calls of another user failed", self.failed > 0),
                ("no call of another user was answered", not (self.took or row.is_one)),
                (f"the loop stood for {self.stood * 1000:.0f} ms", row.is_one and self.stood > LONGEST),
            )
            if is_so
        ]


async def _served(send: Callable[[], Awaitable[Reply]]) -> Reply:
    """The reply to a request. It is sent again where the reply says so."""
    while (reply := await send()).status == 503:
        await asyncio.sleep(0.1)
    return reply


async def _uses(url: str, seen: Seen, ends: asyncio.Event) -> None:
    """An ordinary user: one call of two rounds after the other."""
    async with Caller(url) as caller:
        while not ends.is_set():
            began = time.monotonic()
            try:
                asked = await _served(partial(caller.call, "marked"))
                answer = asked.accept(word="go")
                done = await _served(partial(caller.retry, "marked", asked.token, answer))
                if done.text != "done":
                    raise ValueError(done.text)
                seen.took.append(time.monotonic() - began)
            except Exception as error:
                if not seen.failed:
                    print("   ", type(error).__name__, str(error)[:200], flush=True)
                seen.failed += 1
            await asyncio.sleep(0.02)


async def _asks(child: FrameholdProcess, seen: Seen, ends: asyncio.Event) -> None:
    """How long the process is silent at most: it is asked again as soon as it has answered."""
    host, port = child.root.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    while not ends.is_set():
        began = time.monotonic()
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        await reader.readexactly(length)
        seen.stood = max(seen.stood, time.monotonic() - began)
        await asyncio.sleep(0.002)
    writer.close()


async def _watches(child: Child, seen: Seen, ends: asyncio.Event) -> None:
    while not ends.is_set():
        held = resident(child.pid)
        if held is None or not child.alive:
            seen.ended = True
            return
        seen.peak = max(seen.peak, held)
        await asyncio.sleep(0.01)


async def play(name: str, row: Row, folder: Path, redis: RedisServer) -> Seen:
    """One row."""
    seen = Seen()
    made = Fleet(
        folder,
        redis,
        TARGET,
        memory_limit=str(LIMITS["node"]),
        max_connections="1000",
        lease_ttl="10",
        log_level="error",
    )
    try:
        await made.add_nodes("node")
        router = await made.add_router()
        child: FrameholdProcess = router if row.at == "router" else made.nodes["node"]
        url = router.url
        ends = asyncio.Event()
        with ExitStack() as stack:
            groups = [
                stack.enter_context(group(router.pid, "router", LIMITS["router"])),
                stack.enter_context(group(made.nodes["node"].pid, "node", LIMITS["node"])),
            ]
            warm = Seen()
            await _warm(url, warm)
            seen.before = resident(child.pid) or 0
            users = _asks(child, seen, ends) if row.is_one else _uses(url, seen, ends)
            tasks = [asyncio.create_task(users), asyncio.create_task(_watches(child, seen, ends))]
            await _attack(name, int(child.root.rpartition(":")[2]), seen)
            ends.set()
            await asyncio.gather(*tasks)
            seen.kills = sum(one.kills for one in groups)
    finally:
        made.stop()
    return seen


async def _warm(url: str, seen: Seen) -> None:
    ends = asyncio.Event()
    asyncio.get_running_loop().call_later(1.0, ends.set)
    await _uses(url, seen, ends)


async def _attack(name: str, port: int, seen: Seen) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    attacker = context.Process(target=positions.attacks, args=(name, port, theirs), daemon=True)
    attacker.start()
    try:
        seen.sent, seen.statuses = await asyncio.to_thread(ours.recv)
        # What was sent last is read by now, or waits in the kernel's buffers.
        await asyncio.sleep(0.5)
        ours.send("end")
    finally:
        await asyncio.to_thread(attacker.join, 10)
        attacker.kill()


def _line(name: str, row: Row, seen: Seen) -> str:
    took = sorted(seen.took) or [0.0]
    statuses = ", ".join(f"{count} x {status}" for status, count in sorted(seen.statuses.items())) or "none"
    faults = "; ".join(seen.faults(row)) or "holds"
    user = f"user: {len(seen.took)} calls, p99 {took[int(len(took) * 0.99)] * 1000:.0f} ms"
    who = f"the loop stood for {seen.stood * 1000:.0f} ms" if row.is_one else user
    return (
        f"{name:30} sent {seen.sent / MIB:6.0f} MiB, held {seen.before // MIB:4} -> {seen.peak // MIB:4} MiB; {who}; "
        f"responses: {statuses}; {faults}"
    )


def main() -> int:
    """Run the rows whose names contain --only."""
    parser = argparse.ArgumentParser(prog="python -m tests.memory", description=__doc__)
    parser.add_argument("--only", default="", help="a part of the names of the rows to run")
    chosen = parser.parse_args()
    failed = 0
    with running(RedisServer()) as redis:
        for name, row in rows().items():
            if chosen.only not in name:
                continue
            with tempfile.TemporaryDirectory(prefix="framehold-memory-") as folder:
                try:
                    seen = asyncio.run(play(name, row, Path(folder), redis))
                except NoGroup as missing:
                    print(missing, file=sys.stderr)
                    return 2
            print(_line(name, row, seen), flush=True)
            failed += bool(seen.faults(row))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
