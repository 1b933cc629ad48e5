"""The file system that containers see: this machine's, with whatever a pod mounts laid over it.

It is an overlay whose upper side is in memory, so nothing that happens in it reaches the machine. All containers share
it; what is mounted for one is mounted in a mount namespace of its own. Folders above the checkout and the interpreter
are opened to everybody in it, so that processes run as the user that their pod names. The exception: where files of the
checkout themselves are for their owner alone, users stay root, without capabilities.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
NEEDED = (CHECKOUT, Path(sys.prefix), Path(sys.base_prefix))
"""Where that is which containers run."""
_MEMORY = Path("/media")
_SYSTEM = ("proc", "sys", "dev")


class Root:
    """The mounted overlay. All that the rig writes is in memory, mounted over a folder of every machine: nothing is
    to be removed, and it must not be tried, since the machine's own /dev is in there."""

    def __init__(self) -> None:
        self.path, self.state = _MEMORY / "root", _MEMORY / "state"
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(_MEMORY))
        folders = [_MEMORY / name for name in ("upper", "work", "root", "state")]
        for made in folders:
            made.mkdir()
        layers = f"lowerdir=/,upperdir={folders[0]},workdir={folders[1]}"
        _mount("-t", "overlay", "-o", layers, "overlay", str(self.path))
        for name in _SYSTEM:
            _mount("--rbind", f"/{name}", str(self.path / name))
        self._keep_mounts()
        self.users = self._open()

    def folder(self, *parts: str, mode: int = 0o755) -> Path:
        """A folder of the rig's own, made where it is not there yet."""
        path = self.state.joinpath(*parts)
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(mode)
        return path

    def place(self, target: str, like: Path) -> Path:
        """Where containers find `target`; made empty where it is not there, a folder or a file as `like` is."""
        inside = self.path / target.lstrip("/")
        if like.is_dir():
            inside.mkdir(parents=True, exist_ok=True)
        elif not inside.exists():
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
        return inside

    def _keep_mounts(self) -> None:
        """An overlay shows its lowest mount alone: what the checkout or the interpreter is mounted on is added."""
        mounted = {Path(line.split(" ")[4]) for line in Path("/proc/self/mountinfo").read_text().splitlines()}
        for path in sorted(mounted - {Path("/")}, key=str):
            if any(one.is_relative_to(path) for one in NEEDED) and path.parts[1] not in _SYSTEM:
                _mount("--rbind", str(path), str(self.place(str(path), path)))

    def _open(self) -> bool:
        """Let everybody through to what is run; whether everybody may read it then."""
        for path in NEEDED:
            for above in (path, *path.parents):
                inside = self.path / str(above).lstrip("/")
                if not os.access(inside, os.X_OK) or not inside.stat().st_mode & 0o001:
                    inside.chmod(inside.stat().st_mode | 0o055)
        return bool((CHECKOUT / "pyproject.toml").stat().st_mode & 0o004)


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)
