"""A memory cgroup of one process, of version 1 or 2."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/sys/fs/cgroup")


class NoGroup(Exception):
    """This machine makes no memory cgroup. The text says what is missing."""


class Group(NamedTuple):
    """A cgroup that one process was put into. What it held before is charged elsewhere: the group has the rest."""

    folder: Path

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed in it."""
        for name in ("memory.events", "memory.oom_control"):
            if (file := self.folder / name).exists():
                fields = dict(line.split(" ", 1) for line in file.read_text().splitlines())
                return int(fields.get("oom_kill", "0"))
        return 0


@contextmanager
def group(pid: int, name: str, limit: int) -> Iterator[Group]:
    """Put a process into a group of its own, in which it may take `limit` bytes with what it holds already.

    Raises:
        NoGroup: it can't be done here.
    """
    is_v2 = (_ROOT / "cgroup.controllers").exists()
    folder = (_ROOT if is_v2 else _ROOT / "memory") / f"framehold-{os.getpid()}-{name}"
    held = _resident(pid)
    try:
        folder.mkdir()
    except OSError as error:
        raise NoGroup(
            f"{folder} can't be made ({error.strerror}): run this as root, on a machine with cgroups"
        ) from None
    try:
        try:
            file = folder / ("memory.max" if is_v2 else "memory.limit_in_bytes")
            file.write_text(str(limit - held))
            (folder / "cgroup.procs").write_text(str(pid))
        except OSError as error:
            raise NoGroup(f"{folder} limits no memory ({error.strerror})") from None
        yield Group(folder)
    finally:
        _leave(folder)


def _leave(folder: Path) -> None:
    """Move what is left in a group to the one above, and remove it."""
    for pid in (folder / "cgroup.procs").read_text().split():
        try:
            (folder.parent / "cgroup.procs").write_text(pid)
        except OSError:
            continue
    folder.rmdir()


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def resident(pid: int) -> int | None:
    """Bytes that a process has resident; None if it is gone."""
    try:
        return _resident(pid)
    except (OSError, IndexError):
        return None
