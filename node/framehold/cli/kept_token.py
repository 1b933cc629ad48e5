"""The admin token that a running `framehold up` made, kept where this user's other commands find it.

The law: it is this user's alone. The file is in the user's runtime folder, or in the folder for temporary files that
everybody may write to; so it is never opened through a link, it is made anew and never written over, and what another
user put there, or can read, is not believed. A fleet that can't keep its token runs all the same.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

LOCAL = ("127.0.0.1", "localhost", "::1")
_LONGEST = 4096
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def path(port: int) -> Path:
    """The file of the fleet whose router listens on `port`."""
    own = Path({**os.environ}.get("XDG_RUNTIME_DIR") or "/nowhere")
    if _is_mine(own):
        return own / f"framehold-{port}.token"
    return Path(tempfile.gettempdir()) / f"framehold-{os.getuid()}-{port}.token"


def keep(port: int, token: str) -> Path | None:
    """Write it; where it is now, None where it can't be kept."""
    file = path(port)
    try:
        file.unlink(missing_ok=True)
        number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600)
        with os.fdopen(number, "w", encoding="ascii") as out:
            out.write(token)
    except OSError:
        return None
    return file


def drop(file: Path | None) -> None:
    """Leave nothing behind."""
    try:
        if file is not None:
            file.unlink()
    except OSError:
        pass


def found(url: str) -> str | None:
    """The token of the fleet at `url`, where that is on this machine and this user runs it."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443}.get(parts.scheme, 80)
    except ValueError:
        return None
    return _read(path(port)) if parts.hostname in LOCAL else None


def _read(file: Path) -> str | None:
    try:
        number = os.open(file, os.O_RDONLY | os.O_NONBLOCK | _NO_LINK)
    except OSError:
        return None
    with os.fdopen(number, "rb") as opened:
        told = os.fstat(number)
        if not stat.S_ISREG(told.st_mode) or told.st_uid != os.getuid() or told.st_mode & 0o077:
            return None
        text = opened.read(_LONGEST).decode("ascii", "replace").strip()
    return text or None


def _is_mine(folder: Path) -> bool:
    try:
        told = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(told.st_mode) and told.st_uid == os.getuid() and not told.st_mode & 0o022
