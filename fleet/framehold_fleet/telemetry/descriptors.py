"""How many descriptors (of files and sockets) this process has open, and how many it may have (RLIMIT_NOFILE).

At the limit a process makes no connection, and takes none: uvloop closes each that comes, and tells nobody. So the
number is watched.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_log = logging.getLogger(__name__)

_SPENT = (
    "this process has all %d descriptors open that it may (RLIMIT_NOFILE): it can take no connection and make none; "
    "raise the limit (LimitNOFILE= of a systemd unit, ulimit -n, or that of the container)"
)


class Descriptors(NamedTuple):
    """The number of open descriptors, and the limit; None where the system does not say it."""

    used: int | None = None
    limit: int | None = None

    @property
    def are_spent(self) -> bool:
        """Whether there is none left."""
        return self.used is not None and self.limit is not None and self.used >= self.limit


def read(proc: Path = Path("/proc")) -> Descriptors:
    """The present numbers. Takes some microseconds; before Linux 6.2 a millisecond for some thousand descriptors."""
    try:
        import resource
    except ImportError:
        return Descriptors()
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    limit, folder = (None if soft == resource.RLIM_INFINITY else soft), proc / "self/fd"
    try:
        # The size of the folder is the number of its entries, and 0 before Linux 6.2. To list it takes a descriptor.
        return Descriptors(os.stat(folder).st_size or len(os.listdir(folder)) - 1, limit)
    except OSError as error:
        return Descriptors(limit if error.errno == errno.EMFILE else None, limit)


class SpentDescriptors:
    """Logs one line when no descriptor is left, and one when there are some again. `clock` gives seconds that never go
    back."""

    def __init__(self, read: Callable[[], Descriptors] = read, clock: Callable[[], float] = time.monotonic) -> None:
        self._read, self._clock = read, clock
        self._last, self._spent_at = Descriptors(), -math.inf

    def look(self) -> None:
        """Read the numbers."""
        was, self._last = self._last, self._read()
        if self._last.are_spent:
            self._spent_at = self._clock()
            if not was.are_spent:
                _log.error(_SPENT, self._last.limit)
        elif was.are_spent:
            _log.info("this process has descriptors again: %d of %d are open", *self._last)

    def now(self) -> tuple[Descriptors, float]:
        """The present numbers, and how many seconds ago none was left; infinite if there always were some."""
        self.look()
        return self._last, self._clock() - self._spent_at
