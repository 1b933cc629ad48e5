"""The resources of a site: CPU from each process's own clock, memory from /proc, and the operations of its Redis.

Law: CPU before a process serves is not counted: a restarted process is `adopted` once it serves. The CPU of a node
between the last look at it and its end is missing.
"""

from __future__ import annotations

import contextlib
import re
import socket

from framehold_loadtest.local.usage import cpu_seconds, rss_bytes
from framehold_loadtest.report.respects import PLACES
from framehold_loadtest.tradeoff.site import Site

_CALLS = re.compile(r"^cmdstat_([^:]+):calls=(\d+)", re.MULTILINE)
_INNER = {"time", "del", "hexists", "hget", "hgetall", "hmget", "hset", "llen", "lrange", "pexpireat", "publish",
          "rpush", "set", "zadd", "zremrangebyscore"}  # fmt: skip
"""What scripts call. Redis counts it like what clients ask for, so it is left out: a script is one operation."""


class Meter:
    """CPU of a site's processes from `adopt` on."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._place: dict[int, str] = {}
        self.adopt()

    def adopt(self) -> None:
        """Count processes from now on that were not there before."""
        for pid, place in self._site.places().items():
            if pid not in self._first:
                with contextlib.suppress(ProcessLookupError):
                    self._first[pid] = self._last[pid] = cpu_seconds(pid)
                    self._place[pid] = place

    def look(self) -> None:
        """Read those that run."""
        for pid in self._first:
            with contextlib.suppress(ProcessLookupError):
                self._last[pid] = cpu_seconds(pid)

    def spent(self) -> dict[str, float]:
        """Seconds by place, up to the last look."""
        found = dict.fromkeys(PLACES, 0.0)
        for pid, place in self._place.items():
            found[place] += self._last[pid] - self._first[pid]
        return found


def memory(site: Site) -> dict[str, int]:
    """Resident bytes by place."""
    found = dict.fromkeys(PLACES, 0)
    for pid, place in site.places().items():
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
    return sum(count for name, count in calls.items() if name not in _INNER and name != "info")
