"""The memory and the CPU time of a process, from /proc and from the process's own clock."""

from __future__ import annotations

import os
import time
from pathlib import Path

_PROCESS_CLOCK = 2  # clock_getcpuclockid(3) of Linux, which Python has for threads only
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """User and system CPU seconds of all threads of a process.

    The process's own clock has nanoseconds; /proc counts in hundredths of a second.

    Raises:
        ProcessLookupError: there is no such process.
    """
    try:
        return time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
    except OSError:
        raise ProcessLookupError(f"process {pid} has ended") from None


def rss_bytes(pid: int) -> int:
    """Resident memory of a process in bytes.

    Raises:
        FileNotFoundError: there is no such process.
    """
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def waited_seconds(pid: int) -> float:
    """Seconds in which the main thread of a process was ready to run and had no core.

    Raises:
        FileNotFoundError: there is no such process.
    """
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def machine_seconds() -> float:
    """CPU seconds of all processes of this machine so far, and those that its host took from it."""
    user, nice, system, _, _, _, _, stolen = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    return sum(map(int, (user, nice, system, stolen))) / _TICK
