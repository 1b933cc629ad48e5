"""Where a suite is played: its sources and a virtual environment, made once below the checkout.

The stamp beside them is a digest of all that went in, written at the end. So a changed pin, or an installation that was
cut short, is made again.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tests.suites.suites import COMMON, Suite

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache" / "suites"
INSTALL_LIMIT = 1200.0
"""Seconds that one command of pip may take."""


class PlaceFailed(Exception):
    """The sources or the environment could not be made; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of a suite: its sources, the interpreter of its environment, and its results."""

    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "source"

    @property
    def python(self) -> Path:
        """The interpreter that has the suite's requirements and this checkout."""
        return self.folder / "venv" / "bin" / "python"

    @property
    def results(self) -> Path:
        return self.folder / "results"


def ensure(suite: Suite) -> Place:
    """Make what is missing; does nothing where the stamp matches.

    Raises:
        PlaceFailed: pip failed or took too long, or the archive is not the one that the list was written for.
    """
    place = Place(CACHE / suite.name)
    place.folder.mkdir(parents=True, exist_ok=True)
    (CACHE / ".gitignore").write_text("*\n")
    stamp, wanted = place.folder / ".installed", _digest(suite)
    with (place.folder / ".lock").open("w") as lock:
        # Two runs may share the checkout.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            print(f"{suite.name}: getting {suite.project} {suite.version} and what its tests need", flush=True)
            stamp.unlink(missing_ok=True)
            _make(suite, place)
            stamp.write_text(wanted)
    place.results.mkdir(exist_ok=True)
    return place


def _digest(suite: Suite) -> str:
    archive = [suite.project, suite.version, suite.digest]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = [*COMMON, *suite.requirements, *project["dependencies"], sys.version]
    return hashlib.sha256("\n".join(archive + installed).encode()).hexdigest()


def _make(suite: Suite, place: Place) -> None:
    for old in (place.source, place.folder / "venv"):
        shutil.rmtree(old, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(place.folder / "venv")])
    pip = [str(place.python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wanted = f"{suite.project}=={suite.version}"
    download = ["download", "--no-deps", "--no-binary", suite.project, "--dest", str(place.folder), wanted]
    _run([*pip, *download])
    _unpack(place.folder / f"{suite.project}-{suite.version}.tar.gz", suite, place)
    _run([*pip, "install", "--editable", str(ROOT), *COMMON, *suite.requirements])


def _unpack(archive: Path, suite: Suite, place: Place) -> None:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != suite.digest:
        raise PlaceFailed(
            f"{archive.name} has the SHA-256 {digest}, not {suite.digest}; it was not unpacked; if the new archive is "
            "right, write its digest into tests/suites/suites.py"
        )
    unpacked = place.folder / "unpacked"
    shutil.rmtree(unpacked, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(unpacked, filter="data")
    (unpacked / f"{suite.project}-{suite.version}").rename(place.source)
    unpacked.rmdir()
    archive.unlink()


def _run(command: list[str]) -> None:
    shown = " ".join(command)
    try:
        done = subprocess.run(command, timeout=INSTALL_LIMIT, capture_output=True, text=True, check=False)
    except subprocess.TimeoutExpired:
        raise PlaceFailed(f"{shown}: longer than {INSTALL_LIMIT:g} s; nothing was run; try again") from None
    if done.returncode != 0:
        why = done.stderr.strip() or done.stdout.strip()
        raise PlaceFailed(f"{shown}: code {done.returncode}: {why}; nothing was run")
