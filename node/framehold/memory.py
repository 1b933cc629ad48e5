"""How much memory this process may hold, how much it holds, and what of it its frames weigh.

The limit is the smallest of its own cgroup and of all above it. What is held is the resident set (RSS), which says less
than it seems: an allocator keeps pages that dropped frames have left, and fills them with the next. So only a height
that was not seen before teaches what a frame weighs:

    1. RSS rises to a new height: that is what is used, and the frames share what is above the start
    2. frames are dropped, and RSS stays: what is used is what the frames that are left weigh
    3. new frames fill what the others left; RSS rises above its height: back to 1, as heavy as they are
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

HIGH, LOW = 0.9, 0.8
"""Of the limit: above the one, frames are dropped until the other is reached."""
SLACK = 0.01
"""Of the limit: RSS has risen to a new height when it is by this much above the last. Less is no frame's doing."""
LEAST = 4096
"""Bytes that a frame weighs at least; of one that seems lighter, too many would be dropped."""
_UNLIMITED = 1 << 60
"""Bytes from which on a limit is none: cgroups of version 1 write the largest number of pages for it."""


class Footprint:
    """What a process uses of `limit` bytes, as far as can be known; `start` is its RSS before its first frame."""

    def __init__(self, limit: int, start: int) -> None:
        self.limit, self.high, self.low, self.slack = limit, limit * HIGH, limit * LOW, limit * SLACK
        self.resident, self.used, self.weight = start, float(start), float(LEAST)
        self._start, self._height = start, float(start)
        self._learned, self._frames, self._falling = math.inf, 0, False

    def look(self, resident: int, frames: int) -> None:
        """Take in what is resident while there are so many frames."""
        shared = (resident - self._start) / max(1, frames)
        risen = resident > self._height + self.slack
        if risen:
            self._height, self._learned = resident, shared
        else:
            # Pages that were given back are not waiting to be filled.
            self._height = min(self._height, resident + self.high - self.low)
        self.resident, self._frames, self.weight = resident, frames, max(LEAST, min(self._learned, shared))
        self.count(frames)
        if risen:
            self.used = resident

    def count(self, frames: int) -> None:
        """Take in that there are so many frames by now. Those that came since the last look are still to be seen."""
        here = min(self.resident, self._start + self.weight * min(frames, self._frames))
        self.used = here + self.weight * max(0, frames - self._frames)

    @property
    def short(self) -> bool:
        """Whether too much is used."""
        return self.used > self.high

    def excess(self) -> int:
        """How many frames should go: none before the high mark is met, and from then on until the low one is."""
        self._falling = self.used > (self.low if self._falling else self.high)
        return math.ceil((self.used - self.low) / self.weight) if self._falling else 0


def resident(proc: Path = Path("/proc")) -> int | None:
    """Bytes of this process that are in memory; None where the system doesn't say it in Linux's way."""
    try:
        return int((proc / "self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def limit(proc: Path = Path("/proc")) -> int | None:
    """The smallest limit on the memory of this process's cgroups, in bytes; None where there is none."""
    found = [_read(file) for file in _limits(proc)]
    return min((size for size in found if size is not None and 0 < size < _UNLIMITED), default=None)


def trim() -> None:
    """Give back the pages that the C allocator keeps for later, where it is glibc's: a millisecond for each 100 MB."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if give_back is not None:
        give_back(0)


def _limits(proc: Path) -> Iterator[Path]:
    """The files that may hold a limit: of each hierarchy that accounts for memory, the group's own and those above."""
    for kind, path in _groups(proc):
        for root, mounted in _mounts(proc, kind):
            name = "memory.max" if kind == "cgroup2" else "memory.limit_in_bytes"
            yield mounted / name
            # What is mounted in a container is its own group, under the path that the host knows it by.
            inside = path.removeprefix(root) if path == root or path.startswith(root.rstrip("/") + "/") else path
            below = mounted
            for part in inside.split("/"):
                if part == "..":
                    # Seen from another namespace the group is outside of what is mounted.
                    break
                below = below / part
                yield below / name


def _groups(proc: Path) -> Iterator[tuple[str, str]]:
    """This process's groups that account for memory: the kind of their file system, and their path in it."""
    for line in _lines(proc / "self/cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield "cgroup2", path
        elif "memory" in controllers.split(","):
            yield "cgroup", path


def _mounts(proc: Path, kind: str) -> Iterator[tuple[str, Path]]:
    """Where file systems of this kind that account for memory are mounted, and which of their groups is there."""
    for line in _lines(proc / "self/mountinfo"):
        place, _, system = line.partition(" - ")
        fields, (fstype, *options) = place.split(" "), system.split(" ")
        if fstype != kind or len(fields) < 5 or (kind == "cgroup" and "memory" not in options[-1].split(",")):
            continue
        root, mounted = (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), field) for field in fields[3:5])
        yield root, proc.parent / mounted.lstrip("/")


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return []


def _read(file: Path) -> int | None:
    try:
        return int(file.read_bytes())
    except (OSError, ValueError):
        return None
