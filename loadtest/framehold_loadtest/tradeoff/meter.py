"""The resources of a site: CPU from each process's own clock, memory from /proc, and the operations of its Redis.

Law: CPU before a process serves is not counted: a restarted process is `adopted` once it serves. The CPU of a node
between the last look at it and its end is missing.

Two figures say whether the machine was busy. The processes of a site compete with each other and with the load,
so that they wait for cores on a machine that does nothing else, too. Hence a wait is held against others only as far
as other programs had cores: what all processes used, less what the site and this process used.
"""

from __future__ import annotations

import contextlib
import re
import socket
import time

from framehold_loadtest.local.usage import cpu_seconds, machine_seconds, rss_bytes, waited_seconds
from framehold_loadtest.report.respects import PLACES
from framehold_loadtest.tradeoff.record import Cores
from framehold_loadtest.tradeoff.site import Site

_CALLS = re.compile(r"^cmdstat_([^:]+):calls=(\d+)", re.MULTILINE)
INNER = frozenset((
    *("del", "get", "hexists", "hget", "hgetall", "hlen", "hmget", "hset", "hstrlen", "llen", "lrange", "memory|usage"),
    *("mget", "pexpireat", "publish", "rpush", "scan", "set", "strlen", "time", "xadd", "xrange", "xtrim", "zadd"),
    *("zcount", "zrange", "zremrangebyscore"),
))  # fmt: skip
"""What the store's scripts call. Redis counts it like what clients ask for, so it is left out: a script is one
operation."""
MOST_STRETCH, MOST_OTHERS = 1.1, 0.25
"""A turn is not used if its processes took longer than this for their work while others had more cores than that."""


class Meter:
    """CPU of a site's processes from `adopt` on, and whether they had the cores that they wanted."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._place: dict[int, str] = {}
        self._waited: dict[int, tuple[float, float]] = {}
        self._starting = 0.0
        self._began = time.monotonic(), machine_seconds(), time.process_time()
        self.adopt()
        self._starting = 0.0  # of those that ran before

    def adopt(self) -> None:
        """Count processes from now on that were not there before."""
        for pid, place in self._site.places().items():
            if pid not in self._first:
                with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                    self._waited[pid] = (waited_seconds(pid),) * 2
                    self._first[pid] = self._last[pid] = cpu_seconds(pid)
                    self._place[pid] = place
                    self._starting += self._first[pid]

    def look(self) -> None:
        """Read those that run."""
        for pid in self._first:
            with contextlib.suppress(ProcessLookupError, FileNotFoundError):
                self._waited[pid] = self._waited[pid][0], waited_seconds(pid)
                self._last[pid] = cpu_seconds(pid)

    def spent(self) -> dict[str, float]:
        """Seconds by place, up to the last look."""
        found = dict.fromkeys((*PLACES, *self._place.values()), 0.0)
        for pid, place in self._place.items():
            found[place] += self._last[pid] - self._first[pid]
        return {place: found[place] for place in PLACES}

    def cores(self) -> Cores:
        """How the cores were shared, up to now."""
        worked = sum(self._last[pid] - first for pid, first in self._first.items())
        waited = sum(last - first for first, last in self._waited.values())
        at, machine, own = self._began
        ours = worked + self._starting + time.process_time() - own
        others = (machine_seconds() - machine - ours) / (time.monotonic() - at)
        return Cores(1 + waited / worked if worked else 1.0, max(0.0, others))


def busy(cores: Cores) -> str:
    """Why a turn can't be used; empty if it can."""
    if cores.others <= MOST_OTHERS or cores.stretch <= MOST_STRETCH:
        return ""
    return f"other programs had {cores.others:.1f} cores, and work took {cores.stretch:.1f} times as long for it"


def memory(site: Site) -> dict[str, int]:
    """Resident bytes by place."""
    found = dict.fromkeys(PLACES, 0)
    for pid, place in site.places().items():
        if place in found:
            found[place] += rss_bytes(pid)
    return found


def operations(port: int) -> int:
    """What clients have asked a Redis for since it began; 0 without one."""
    if not port:
        return 0
    with socket.create_connection(("127.0.0.1", port), timeout=5) as link, link.makefile("rb") as answers:
        link.sendall(b"INFO commandstats\r\n")
        size = int(answers.readline()[1:])
        return asked(answers.read(size).decode())


def asked(stats: str) -> int:
    """The operations of clients in the text of `INFO commandstats`, without this question itself."""
    calls = {name: int(count) for name, count in _CALLS.findall(stats)}
    return sum(count for name, count in calls.items() if name not in INNER and name != "info")
