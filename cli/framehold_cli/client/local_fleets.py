"""The files by which a running `framehold up` is found by other commands of the same user, one file for each fleet.

The law: a file holds only the secrets that `up` made for its run, and never one that its user gave it. Only this user
can read or replace it. The file is in the user's runtime folder, or in the folder for temporary files, to which every
user may write. So the file is never opened through a link, it is created anew and never overwritten, and a file that
another user owns or can read is ignored. A fleet that can't write its file runs without it.

`up` locks its file for as long as it lives. A file without a lock is one of a fleet that was killed: whoever listens on
its port now is somebody else, and gets nothing.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

LOCAL = ("127.0.0.1", "localhost", "::1")
_MAX_BYTES = 16_384
_PATIENCE = 0.5
"""Seconds that a fleet's router on this machine has to take a connection."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_LOCKED: dict[Path, int] = {}
"""The files that this process has locked, by their descriptors."""


class LocalFleet(BaseModel):
    """A fleet of `framehold up`: the port of its router, what it serves, and the folder of that code.

    `admin_token`, `keys` and `store_url` are those that `up` made for this run, empty where its user gave one. The
    `namespace` is a part of the keys in the store."""

    model_config = ConfigDict(frozen=True)

    port: int = Field(gt=0, le=65_535)
    serves: str = ""
    folder: str = ""
    namespace: str = "default"
    admin_token: str = Field("", repr=False)
    keys: str = Field("", repr=False)
    store_url: str = Field("", repr=False)

    @property
    def url(self) -> str:
        """The address of its router."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def listens(self) -> bool:
        """Whether a process listens on its port now."""
        try:
            socket.create_connection((LOCAL[0], self.port), _PATIENCE).close()
        except OSError:
            return False
        return True


def path(port: int) -> Path:
    """The path of the file of the fleet whose router listens on `port`."""
    folder, prefix = _place()
    return folder / f"{prefix}{port}.json"


def keep(fleet: LocalFleet) -> Path | None:
    """Write the file of a fleet. Return its path, or None if it can't be written, or the name of its folder is not
    UTF-8."""
    file = path(fleet.port)
    drop(file)
    try:
        text = fleet.model_dump_json().encode()
        file.unlink(missing_ok=True)
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600)
        os.write(number, text)
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (OSError, ValueError):
        return None
    _LOCKED[file] = number
    return file


def drop(file: Path | None) -> None:
    """Remove a fleet's file, if there is one."""
    try:
        if file is not None:
            file.unlink()
            os.close(_LOCKED.pop(file))
    except (OSError, KeyError):
        pass


def at(url: str) -> LocalFleet | None:
    """The fleet at `url`, if it is on this machine and this user runs it; else None."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443}.get(parts.scheme, 80)
    except ValueError:
        return None
    return _read(path(port), port) if parts.hostname in LOCAL else None


def watch(url: str) -> Callable[[], bool]:
    """A function that returns whether the fleet at `url` has ended, if this user runs one there now. For any other
    server it returns false."""
    return (lambda: at(url) is None) if at(url) else (lambda: False)


def admin_token(url: str) -> str | None:
    """The admin token that `up` made for the fleet at `url`, if this user runs it on this machine; else None."""
    fleet = at(url)
    return (fleet.admin_token or None) if fleet else None


def running() -> list[LocalFleet]:
    """The fleets of this user that run on this machine now, in order of their ports."""
    return sorted((fleet for fleet in _known() if fleet.listens), key=lambda fleet: fleet.port)


def _known() -> Iterator[LocalFleet]:
    folder, prefix = _place()
    for file in folder.glob(f"{prefix}*.json"):
        port = file.stem.removeprefix(prefix)
        if port.isascii() and port.isdecimal() and (fleet := _read(file, int(port))) is not None:
            yield fleet


def _place() -> tuple[Path, str]:
    """The folder of the files, and how their names begin."""
    own = Path({**os.environ}.get("XDG_RUNTIME_DIR") or "/nowhere")
    if _is_mine(own):
        return own, "framehold-"
    try:
        shared = tempfile.gettempdir()
    except FileNotFoundError:
        # No folder of this container may be written to: no fleet of `framehold up` runs here.
        shared = "/nowhere"
    return Path(shared), f"framehold-{os.getuid()}-"


def _read(file: Path, port: int) -> LocalFleet | None:
    """The fleet that a file describes; None if there is no such file, it is not this user's alone, it is of another
    port or release, or its `up` has ended."""
    try:
        number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK)
    except OSError:
        return None
    with os.fdopen(number, "rb") as opened:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            return None
        if not _is_locked(number):
            return None
        try:
            fleet = LocalFleet.model_validate_json(opened.read(_MAX_BYTES))
        except ValidationError:
            return None
    return fleet if fleet.port == port else None


def _is_locked(number: int) -> bool:
    """Whether another open file has the lock. Where the file system has no locks, it counts as locked."""
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(number, fcntl.LOCK_UN)
    return False


def _is_mine(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
