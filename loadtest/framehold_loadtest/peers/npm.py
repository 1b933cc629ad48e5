"""The programs of npm that peers run, pinned by `npm/package-lock.json`: Node, the TypeScript SDK, Restate's server.

The law: what runs is what the lock names, and no package's install script is run. The stamp beside the packages is the
digest of our files, written after npm has finished, so a changed lock or an install that was cut short is done again.
"""

from __future__ import annotations

import fcntl
import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

from framehold_loadtest.local.process import NotAvailable

PINS = Path(__file__).with_name("npm")
HOME = Path.home() / ".cache" / "framehold" / "peers"
"""Where the packages go unless another folder is named: about 420 MB."""
_FILES = ("package.json", "package-lock.json", "weather.mjs")
_SECONDS = 300.0
_MACHINES = {"x86_64": "x64", "aarch64": "arm64"}


class Packages:
    """The installed packages of a folder."""

    def __init__(self, folder: Path) -> None:
        self.weather = folder / "weather.mjs"
        machine = _MACHINES.get(platform.machine(), platform.machine())
        modules = folder / "node_modules"
        self.node = modules / f"node-linux-{machine}" / "bin" / "node"
        self.restate = modules / "@restatedev" / f"restate-server-linux-{machine}" / "bin" / "restate-server"


def ensure(folder: Path = HOME) -> Packages:
    """Install what is missing into the folder; does nothing where the stamp matches.

    Raises:
        NotAvailable: npm is missing, failed, or took too long.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n")  # the folder ignores itself, whatever a repository around it ignores
    packages, stamp, wanted = Packages(folder), folder / ".installed", _digest()
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two runs may share the folder
        if not (stamp.exists() and stamp.read_text() == wanted and packages.node.exists()):
            stamp.unlink(missing_ok=True)
            _install(folder)
            stamp.write_text(wanted)
    return packages


def _digest() -> str:
    return hashlib.sha256(b"".join((PINS / name).read_bytes() for name in _FILES)).hexdigest()


def _install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NotAvailable("npm is missing; install it, for example: apt-get install -y npm")
    for name in _FILES:
        shutil.copyfile(PINS / name, folder / name)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    try:
        done = subprocess.run(command, cwd=folder, timeout=_SECONDS, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        raise NotAvailable(f"npm ci took longer than {_SECONDS:.0f} s; run it again") from None
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["nothing"]
        raise NotAvailable(f"npm ci failed with code {done.returncode}: {lines[-1]}")
