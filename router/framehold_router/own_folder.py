"""The temporary folder of a process: it goes with the process, and the next one removes what a killed one has left.

A process holds a lock on a file in its folder. The kernel releases the lock when the process ends, however that
happens: so a folder whose lock can be had belongs to nobody.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from framehold_core.errors import ConfigError

NOWHERE = "no folder for temporary files can be written to; nothing was started; mount a tmpfs at /tmp, or set TMPDIR"
PREFIX = "framehold-router-"
_LOCK, _UNLOCKED = "lock", "unlocked"
_YOUNG = 60.0
"""Seconds in which a folder without a lock may be one that is being made."""


@contextlib.contextmanager
def own_folder() -> Iterator[Path]:
    """A folder that only this user can enter, until the block ends.

    Raises:
        ConfigError: there is nowhere to make it.
    """
    try:
        place = Path(tempfile.gettempdir())
    except FileNotFoundError:
        raise ConfigError(NOWHERE) from None
    for folder in place.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            _remove_if_left(folder)
    with tempfile.TemporaryDirectory(prefix=PREFIX) as made:
        folder = Path(made)
        lock = os.open(folder / _UNLOCKED, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # Others see the file under its name only when it is locked.
            (folder / _UNLOCKED).rename(folder / _LOCK)
            yield folder
        finally:
            os.close(lock)


def _remove_if_left(folder: Path) -> None:
    """Remove `folder` if its process has ended.

    Raises:
        OSError: it has not, or the folder is another user's.
    """
    if folder.stat().st_uid != os.getuid():
        return
    if not (folder / _LOCK).exists():
        if time.time() - folder.stat().st_mtime > _YOUNG:
            shutil.rmtree(folder)
        return
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
