"""Node 22 and the npm packages of package.json, installed once below the checkout.

The law: what runs is what package-lock.json names. The stamp beside the packages is the digest of both files, written
after npm has finished, so a changed lock or an install that was cut short is installed again.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = ROOT / ".cache" / "conformance"
NODE = CACHE / "node_modules" / "node" / "bin" / "node"
SUITE = CACHE / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"

_PINS = ("package.json", "package-lock.json")
_STAMP = CACHE / ".installed"


class NodeUnavailable(Exception):
    """The packages could not be installed; the message says what to do, in one line."""


def ensure(timeout: float) -> Path:
    """Install what is missing and return the folder; does nothing where the stamp matches.

    Args:
        timeout: Seconds that npm may take.

    Raises:
        NodeUnavailable: npm is missing, failed, or took too long.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")  # the folder ignores itself, whatever the repository ignores
    with (CACHE / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two test runs may share the checkout
        wanted = _digest()
        if not (_STAMP.exists() and _STAMP.read_text() == wanted and NODE.exists() and SUITE.exists()):
            _install(timeout)
            _STAMP.write_text(wanted)
    return CACHE


def _digest() -> str:
    return hashlib.sha256(b"".join((HERE / name).read_bytes() for name in _PINS)).hexdigest()


def _install(timeout: float) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NodeUnavailable("npm is missing; install it, for example: apt-get install -y npm")
    _STAMP.unlink(missing_ok=True)
    for name in _PINS:
        shutil.copyfile(HERE / name, CACHE / name)
    # The package `node` fetches its binary in an install script, so scripts must not be switched off.
    command = [npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts=false", "--loglevel=error"]
    try:
        done = subprocess.run(command, cwd=CACHE, timeout=timeout, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        raise NodeUnavailable(f"npm ci took longer than {timeout:.0f} s; nothing was run, try again") from None
    if done.returncode != 0 or not NODE.exists():
        raise NodeUnavailable(
            f"npm ci failed with code {done.returncode}: {done.stderr.strip() or done.stdout.strip()}"
        )
