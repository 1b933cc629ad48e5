"""Writes the locks of the images: every package that an image installs, with its version and the hashes of its files.

    python images/lock.py             resolve again (needs uv and a package index), and write images/*.lock
    python images/lock.py --check     exit 1 if a lock was made of other requirements than there are now; asks nobody

A lock begins with the digest of the requirements that it was made of. The Dockerfiles install with --require-hashes.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "images"
PYTHON = "3.11"
"""The release of Python in the base image."""
_BUILD = ("cyclonedx-bom>=7", "hatch-fancy-pypi-readme>=25.1", "hatchling>=1.27")
"""What a build needs: the backend of the wheels with its plugin, and the writer of the list of components."""
_PROCESS_ONE = ("dumb-init>=1.2.5",)
"""The first process of a container: it passes signals on, and reaps processes that handlers leave behind."""


def requirements() -> dict[str, list[str]]:
    """The requirements of each lock, sorted."""
    ours = _dependencies("pyproject.toml")
    theirs = _dependencies("loadtest/pyproject.toml")
    return {"build": sorted(_BUILD), "runtime": sorted([*ours, *_PROCESS_ONE]), "loadtest": sorted(theirs)}


def _dependencies(path: str) -> list[str]:
    """What a distribution depends on, without those of this repository."""
    found = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]["dependencies"]
    return [each for each in found if not re.match(r"framehold\b", each)]


def digest(wanted: Iterable[str]) -> str:
    """The digest of requirements, as the first line of their lock has it."""
    return hashlib.sha256("\n".join([PYTHON, *wanted]).encode()).hexdigest()


def path(name: str) -> Path:
    """The file of a lock."""
    return FOLDER / f"{name}.lock"


def stale() -> list[str]:
    """The names of the locks that were made of other requirements."""
    return [name for name, wanted in requirements().items() if f"# of {digest(wanted)}\n" not in _text(name)]


def _text(name: str) -> str:
    return path(name).read_text(encoding="utf-8") if path(name).exists() else ""


def write(name: str, wanted: list[str]) -> None:
    """Resolve one lock and write it. That of the load tests keeps to the versions of the runtime's."""
    limits = ["--constraint", str(path("runtime"))] if name == "loadtest" else []
    options = ["--generate-hashes", "--no-header", "--no-annotate", "--python-version", PYTHON, "--universal"]
    command = ["uv", "pip", "compile", "--quiet", *options, "--no-emit-index-url", *limits, "-"]
    text = subprocess.run(command, input="\n".join(wanted), capture_output=True, text=True, check=True).stdout
    head = f"# Written by images/lock.py for Python {PYTHON}: change pyproject.toml, and write it again.\n"
    path(name).write_text(f"{head}# of {digest(wanted)}\n{text}", encoding="utf-8")


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Write the locks of the images.")
    parser.add_argument("--check", action="store_true", help="exit 1 if a lock is stale, and write nothing")
    if parser.parse_args().check:
        if names := stale():
            sys.exit(f"images: {', '.join(names)} made of other requirements; run: python images/lock.py")
        return
    for name, wanted in requirements().items():
        write(name, wanted)


if __name__ == "__main__":
    main()
