"""The faults of the scenes that are days of their own: they have no mend after which the others could go on."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fleet.day.stage import GROUP, NODES, Day, eventually, in_group
from tests.kit.client import Caller
from tests.kit.redis_server import running
from tests.kit.redis_topologies import SentinelTrio

FIRST, SECOND, THIRD = NODES
STRAY = "stray"
"""A node that comes into the fleet by mistake."""
_MEMORY = Path("/sys/fs/cgroup/memory")
_LIMIT = 240 << 20
"""Bytes that a node may take, in its cgroup."""


async def stand_still(day: Day) -> None:
    """SIGSTOP a node for 20 s."""
    with day.fleet.nodes[FIRST].paused():
        await asyncio.sleep(20)


async def keep_on_disk(day: Day) -> None:
    """The store keeps a journal on its disk."""
    await asyncio.to_thread(day.redis.keep)


async def come_back(day: Day) -> None:
    """SIGKILL the store, and start it again with what is on its disk after 15 s."""
    day.redis.kill()
    await asyncio.sleep(15)
    await asyncio.to_thread(day.redis.start)


async def come_back_empty(day: Day) -> None:
    """SIGKILL the store, and start it again at once: it kept nothing."""
    day.redis.kill()
    await asyncio.to_thread(day.redis.start)


async def come_back_empty_twice(day: Day) -> None:
    """The store comes back empty, and once more when its nodes have written again what they knew."""
    for _ in range(2):
        await come_back_empty(day)
        await eventually(day.whole, "routers that know all nodes")


async def two_servers(day: Day) -> None:
    """Keep the fleet's store on a master and a replica, under sentinels."""
    trio = day.stack.enter_context(running(SentinelTrio()))
    day.trio = trio
    day.fleet.common["FRAMEHOLD_STORE_URL"] = trio.url


async def fail_over(day: Day) -> None:
    """One clock is 90 s ahead and another one 90 s behind, and the master of the store is killed."""
    await day.start_as(FIRST, *_faked(), FAKETIME="+90s")
    await day.start_as(SECOND, *_faked(), FAKETIME="-90s")
    await eventually(day.whole, "routers that know all nodes")
    day.trio.kill_master()


async def small_disk(day: Day) -> None:
    """The store keeps its journal on a disk of 4 MiB, which other files fill soon."""
    folder = tempfile.mkdtemp(prefix="framehold-disk-")
    _run("mount", "-t", "tmpfs", "-o", "size=4m", "day", folder)
    day.stack.callback(os.rmdir, folder)
    day.stack.callback(_run, "umount", "--lazy", folder)
    with day.redis.client() as client:
        client.config_set("dir", folder)
        client.config_set("appendfsync", "everysec")
        client.config_set("appendonly", "yes")
    day.disk = Path(folder)


async def fill_disk(day: Day) -> None:
    """Leave no room on the disk of the store's journal."""
    with (day.disk / "other").open("wb") as file:
        file.write(bytes(os.statvfs(day.disk).f_bavail * os.statvfs(day.disk).f_frsize))


async def kill_router(day: Day) -> None:
    """SIGKILL one of the two routers."""
    day.fleet.routers[1].kill()


async def cut_all(day: Day) -> None:
    """Drop all that the routers send to one node."""
    for number in range(len(day.fleet.routers)):
        _cut(day, number)


async def cut_one(day: Day) -> None:
    """Drop all that one of the two routers sends to one node."""
    _cut(day, 0)


def _cut(day: Day, router: int) -> None:
    rule: tuple[str, ...] = ("OUTPUT", "-o", "lo", "-p", "tcp", "--dport", str(day.fleet.ports[FIRST]))
    rule += ("-m", "owner", "--gid-owner", str(GROUP + router), "-j", "DROP")
    _run("iptables", "-I", *rule)
    day.stack.callback(_run, "iptables", "-D", *rule)


async def die_again(day: Day) -> None:
    """SIGKILL a node four times; a supervisor starts it again each time."""
    for _ in range(4):
        day.fleet.nodes[FIRST].kill()
        await asyncio.sleep(1)
        await day.restart(FIRST)
        await asyncio.sleep(2)


async def wrong_keys(day: Day) -> None:
    """Start one more node, with keys of its own."""
    await day.start_as(STRAY, FRAMEHOLD_KEYS=secrets.token_hex(32))


async def another_server(day: Day) -> None:
    """Start a node of another server with the settings of this fleet."""
    await day.start_as(STRAY, target="tests/node/three_rounds.py")


async def other_servers(day: Day) -> None:
    """Start nodes of two more servers with the settings of this fleet."""
    await another_server(day)
    await day.start_as("stray-2", target="framehold.examples.booking")


async def fast_clock(day: Day) -> None:
    """Start a node again whose wall clock is 90 s ahead."""
    await day.start_as(SECOND, *_faked(), FAKETIME="+90s")


async def jumping_clock(day: Day) -> None:
    """The wall clock of a running node jumps 90 s ahead, then 90 s behind, back, and ahead again."""
    clock = day.fleet.folder / "clock"
    clock.write_text("+0s")
    await day.start_as(SECOND, *_faked(), FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_NO_CACHE="1")
    await eventually(day.whole, "routers that know all nodes")
    for offset in ("+90s", "-90s", "+0s", "+90s"):
        clock.write_text(offset)
        await asyncio.sleep(4)


def _faked() -> tuple[str, ...]:
    library = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))
    return ("env", f"LD_PRELOAD={library}", "DONT_FAKE_MONOTONIC=1")


async def few_descriptors(day: Day) -> None:
    """A node may have 60 descriptors, and clients take what is left."""
    await _exhaust(day, day.fleet.nodes[THIRD].pid, day.fleet.nodes[THIRD].root, ())


async def few_router_descriptors(day: Day) -> None:
    """A router may have 60 descriptors, and clients take what is left."""
    await _exhaust(day, day.fleet.routers[1].pid, day.fleet.routers[1].root, in_group(1))


async def _exhaust(day: Day, pid: int, root: str, group: Sequence[str]) -> None:
    limit = max(60, len(os.listdir(f"/proc/{pid}/fd")) + 3)
    # Only a process of the same group may do it. The hard limit stays: the next strike could not raise it again.
    subprocess.run([*group, "prlimit", f"--pid={pid}", f"--nofile={limit}:"], check=True)
    host, _, port = root.removeprefix("http://").partition(":")
    for _ in range(limit):
        held = day.stack.enter_context(socket.socket())
        held.setblocking(False)
        held.connect_ex((host, int(port)))
        await asyncio.sleep(0.02)


async def leak(day: Day) -> None:
    """A tool of a node keeps memory, until its cgroup of 240 MiB is nearly full."""
    folder = _MEMORY / f"framehold-day-{os.getpid()}"
    folder.mkdir()
    day.stack.callback(folder.rmdir)
    (folder / "memory.limit_in_bytes").write_text(str(_LIMIT))
    await day.start_as(THIRD, "sh", "-c", f'echo $$ > {folder}/cgroup.procs; exec "$@"', "sh")
    day.stack.callback(day.fleet.nodes[THIRD].kill)
    async with Caller(day.fleet.nodes[THIRD].url) as caller:
        while int((folder / "memory.usage_in_bytes").read_text()) < 0.93 * _LIMIT:
            reply = await caller.call("hoard")
            if reply.status != 200 or "result" not in reply.message:
                return


async def park(day: Day, calls: int = 40) -> None:
    """Begin calls that nobody answers, at one node."""
    async with Caller(day.fleet.nodes[SECOND].url) as caller:
        for _ in range(calls):
            assert (await caller.call("book", arguments={"fails": False})).token


async def drain_parked(day: Day) -> None:
    """Park 40 calls at a node, and drain it."""
    await park(day)
    await day.run("drain", SECOND, "--no-wait")


async def flood(day: Day) -> None:
    """Begin 300 calls through a router that nobody answers, 20 at a time."""

    async def some() -> None:
        async with Caller(day.url) as caller:
            for _ in range(15):
                await caller.call("book", arguments={"fails": False})

    await asyncio.gather(*(some() for _ in range(20)))


async def mount(day: Day) -> None:
    """All nodes are parts of another app, which has the server under a path of its own."""
    day.mounted = True


async def serve_mounted(day: Day) -> None:
    """Let the traffic go on for 10 s."""
    before = day.traffic.figures
    await asyncio.sleep(10)
    assert day.traffic.figures.ended > before.ended


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
