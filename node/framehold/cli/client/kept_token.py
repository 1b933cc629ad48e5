"""The file with the admin token that a running `framehold up` made, for other commands of the same user.

The law: only this user can read or replace the token. The file is in the user's runtime folder, or in the folder for
temporary files, to which every user may write. So the file is never opened through a link, it is created anew and never
overwritten, and a file that another user owns or can read is ignored. A fleet that can't write the file runs without.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

LOCAL = ("127.0.0.1", "localhost", "::1")
_MAX_TOKEN_BYTES = 4096
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def path(port: int) -> Path:
    """The path of the token's file for the fleet whose router listens on `port`."""
    own = Path({**os.environ}.get("XDG_RUNTIME_DIR") or "/nowhere")
    if _is_mine(own):
        return own / f"framehold-{port}.token"
    return Path(tempfile.gettempdir()) / f"framehold-{os.getuid()}-{port}.token"


def keep(port: int, token: str) -> Path | None:
    """Write the token to its file. Return the file's path, or None if it can't be written."""
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
    """Remove the token's file, if there is one."""
    try:
        if file is not None:
            file.unlink()
    except OSError:
        pass


def found(url: str) -> str | None:
    """The token of the fleet at `url`, if the fleet is on this machine and this user runs it; else None."""
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
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            return None
        text = opened.read(_MAX_TOKEN_BYTES).decode("ascii", "replace").strip()
    return text or None


def _is_mine(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o022
