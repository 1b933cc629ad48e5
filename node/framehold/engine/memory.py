"""How much memory this process may use, how much it uses, and how much one frame takes.

The limit is the smallest of its own cgroup and of all cgroups above it; where there is none, half of the machine's
memory. The memory in use is estimated from the
resident set (RSS). RSS alone is misleading: the allocator keeps the pages of dropped frames and fills them with new
frames. So only a new maximum of RSS shows what a frame weighs:

    1. RSS rises to a new maximum: all of it is in use; what is above the start, divided by the frames, is their weight
    2. frames are dropped, and RSS stays: in use is the start and the weight of the frames that are left
    3. new frames fill the freed pages; when RSS rises above its maximum, 1 applies again
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path

HIGH, LOW = 0.9, 0.8
"""Parts of the limit: above HIGH, frames are evicted until LOW is reached."""
SLACK = 0.01
"""Part of the limit: RSS has a new maximum when it is above the last one by more than this. Smaller changes are not
caused by frames."""
MIN_FRAME_BYTES = 4096
"""The lowest weight of a frame in bytes. With a lower estimate too many frames would be evicted."""
MIN_SAMPLE = 300
"""Frames that a measured weight needs. With fewer, most of what the process grew by is something else."""
SESSION_BYTES = 40 << 10
"""About what an idle session of a client of an earlier revision takes, in bytes."""
_PAGE = mmap.PAGESIZE
_UNLIMITED = 1 << 60
"""A limit of this many bytes or more is none: cgroups of version 1 write the largest number of pages for no limit."""


class Footprint:
    """An estimate of how much a process uses of `limit` bytes. `start` is its RSS before its first frame. `used` is the
    estimate in bytes, `weight` the bytes of one frame, `resident` the last RSS. There were `frames` frames then."""

    def __init__(self, limit: int, start: int) -> None:
        self.limit, self.high, self.low, self.slack = limit, limit * HIGH, limit * LOW, limit * SLACK
        self.resident, self.used, self.weight = start, float(start), float(MIN_FRAME_BYTES)
        self._start, self._height = start, float(start)
        self._recorded, self.frames, self._falling = math.inf, 0, False
        self.measured: float | None = None
        """Bytes of one frame as last measured with MIN_SAMPLE frames or more; None if it never had so many. `weight` is
        a working value that evictions need even before that."""

    def look(self, resident: int, frames: int) -> None:
        """Take in a reading: `resident` bytes of RSS with so many frames."""
        shared = (resident - self._start) / max(1, frames)
        risen = resident > self._height + self.slack
        if risen:
            self._height, self._recorded = resident, shared
            if frames >= MIN_SAMPLE:
                self.measured = shared
        else:
            # Pages that were given back to the system can't be filled again: the maximum goes down with them.
            self._height = min(self._height, resident + self.high - self.low)
        self.resident, self.frames, self.weight = resident, frames, max(MIN_FRAME_BYTES, min(self._recorded, shared))
        self.count(frames)
        if risen:
            self.used = resident

    def count(self, frames: int) -> None:
        """Take in the present number of frames. Frames that came since the last reading are added with their weight."""
        here = min(self.resident, self._start + self.weight * min(frames, self.frames))
        self.used = here + self.weight * max(0, frames - self.frames)

    @property
    def most(self) -> float:
        """Bytes that calls may take: what the start left below the low mark."""
        return max(0.0, self.low - self._start)

    @property
    def short(self) -> bool:
        """Whether too much is used."""
        return self.used > self.high

    def excess(self) -> int:
        """How many frames should be evicted: none until the high mark is exceeded, then those down to the low mark."""
        self._falling = self.used > (self.low if self._falling else self.high)
        return math.ceil((self.used - self.low) / self.weight) if self._falling else 0


def resident(proc: Path = Path("/proc")) -> int | None:
    """The resident set of this process in bytes; None if the system has no `/proc` as on Linux."""
    try:
        # Calls come often to here: a path object would take three times as long as the rest.
        with open(f"{proc}/self/statm", "rb", buffering=0) as file:
            return int(file.read(256).split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None


def limit(proc: Path = Path("/proc")) -> int | None:
    """The smallest memory limit of this process's cgroups, in bytes; None if there is none."""
    found = [_read(file) for file in _limits(proc)]
    return min((size for size in found if size is not None and 0 < size < _UNLIMITED), default=None)


def allowed(setting: int | None, proc: Path = Path("/proc")) -> int | None:
    """Bytes that this process may take: `setting`, else the limit of its cgroups, else half of the machine's memory.
    None if nothing of that is known."""
    if setting is not None:
        return setting
    return limit(proc) or _half_of_machine(proc)


def sessions(most: int, least: int, limit: int | None, resident: int | None) -> int:
    """How many sessions of clients of earlier revisions fit half of the memory that `resident` bytes leave below the
    low mark of `limit` bytes: the other half stays for frames. `most` if one of the two is not known.

    Anybody may open sessions, and one that is not used stays for half an hour."""
    if limit is None or resident is None:
        return most
    return max(least, min(most, int((limit * LOW - resident) / 2 / SESSION_BYTES)))


def trim() -> None:
    """Give the free pages of the C allocator back to the system, if it is glibc's. Takes a millisecond for 100 MB."""
    give_back = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if give_back is not None:
        give_back(0)


def _limits(proc: Path) -> Iterator[Path]:
    """The files that may hold a limit: in each hierarchy that accounts for memory, of the process's group and of all
    groups above it."""
    for kind, path in _groups(proc):
        for root, mounted in _mounts(proc, kind):
            name = "memory.max" if kind == "cgroup2" else "memory.limit_in_bytes"
            yield mounted / name
            # In a container the mount shows its own group, while the path is the one that the host has for it.
            inside = path.removeprefix(root) if path == root or path.startswith(root.rstrip("/") + "/") else path
            below = mounted
            for part in inside.split("/"):
                if part == "..":
                    # The group is of another namespace, outside of what is mounted.
                    break
                below = below / part
                yield below / name


def _groups(proc: Path) -> Iterator[tuple[str, str]]:
    """This process's cgroups that account for memory: the type of their file system, and their path in it."""
    for line in _lines(proc / "self/cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield "cgroup2", path
        elif "memory" in controllers.split(","):
            yield "cgroup", path


def _mounts(proc: Path, kind: str) -> Iterator[tuple[str, Path]]:
    """The mounts of cgroup file systems of this type that account for memory: which group is mounted, and where."""
    for line in _lines(proc / "self/mountinfo"):
        place, _, system = line.partition(" - ")
        fields, (fstype, *options) = place.split(" "), system.split(" ")
        if fstype != kind or len(fields) < 5 or (kind == "cgroup" and "memory" not in options[-1].split(",")):
            continue
        root, mounted = (re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), field) for field in fields[3:5])
        yield root, proc.parent / mounted.lstrip("/")


def _half_of_machine(proc: Path) -> int | None:
    found = next((line.split() for line in _lines(proc / "meminfo") if line.startswith("MemTotal:")), [])
    return int(found[1]) * 1024 // 2 if len(found) > 1 and found[1].isdigit() else None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return []


def _read(file: Path) -> int | None:
    try:
        return int(file.read_bytes())
    except (OSError, ValueError):
        return None
