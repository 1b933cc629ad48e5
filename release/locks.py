"""Writes the locks: every package of an image with its version and the hashes of its files, and the versions of every
package of the environment for tests.

    python -m release.locks             resolve again (needs uv and a package index), and write all locks
    python -m release.locks --check     exit 1 if a lock was made of other requirements than there are now; asks nobody

A lock begins with the digest of the requirements that it was made of. The Dockerfiles install with --require-hashes.
`make test` installs the versions of tests/dev.lock, so that a release of somebody else breaks no commit of ours.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "images"
PYTHON = "3.11"
"""The release of Python in the base image, and the oldest that the tests run on."""
_BUILD = ("cyclonedx-bom>=7", "hatch-fancy-pypi-readme>=25.1", "hatchling>=1.27")
"""What a build needs: the backend of the wheels with its plugin, and the writer of the list of components."""
_DEV = "dev"
_STAND_IN = "fakeredis"
"""The stand-in for Redis of `framehold up`, and with it lupa. Images leave it out: they never serve it, and its Lua has
a bridge to Python."""
_BESIDE = ("dumb-init>=1.2.5", "py-spy>=0.4")
"""What an image has beside Framehold: the first process of a container, which passes signals on and reaps processes
that handlers leave behind; and a profiler of running processes."""


def requirements() -> dict[str, list[str]]:
    """The requirements of each lock, sorted."""
    ours = _dependencies("pyproject.toml")
    theirs = _dependencies("loadtest/pyproject.toml")
    extras = [*_dependencies("pyproject.toml", extras=True), *_dependencies("loadtest/pyproject.toml", extras=True)]
    return {
        "build": sorted(_BUILD),
        "runtime": sorted([*(each for each in ours if not each.startswith(_STAND_IN)), *_BESIDE]),
        "loadtest": sorted(theirs),
        _DEV: sorted({*ours, *theirs, *extras}),
    }


def _dependencies(path: str, *, extras: bool = False) -> list[str]:
    """What a distribution or its extras depend on, without those of this repository."""
    project = tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
    found = [*chain(*project["optional-dependencies"].values())] if extras else project["dependencies"]
    return [each for each in found if not re.match(r"framehold\b", each)]


def digest(wanted: Iterable[str]) -> str:
    """The digest of requirements, as the first line of their lock has it."""
    return hashlib.sha256("\n".join([PYTHON, *wanted]).encode()).hexdigest()


def path(name: str) -> Path:
    """The file of a lock."""
    return (ROOT / "tests" if name == _DEV else FOLDER) / f"{name}.lock"


def stale() -> list[str]:
    """The names of the locks that were made of other requirements."""
    return [name for name, wanted in requirements().items() if f"# of {digest(wanted)}\n" not in _text(name)]


def pins(name: str) -> dict[str, str]:
    """The version of each package of a lock, by its name."""
    found = re.findall(r"(?m)^([\w.-]+)==([^ \\\n]+)", _text(name))
    return {package.replace("_", "-").lower(): version for package, version in found}


def _text(name: str) -> str:
    return path(name).read_text(encoding="utf-8") if path(name).exists() else ""


def write(name: str, wanted: list[str]) -> None:
    """Resolve one lock and write it. That of the load tests keeps to the versions of the runtime's."""
    limits = ["--constraint", str(path("runtime"))] if name == "loadtest" else []
    options = ["--no-header", "--no-annotate", "--no-emit-index-url", "--python-version", PYTHON, "--universal"]
    # A package that is installed from its folder has no hash, and pip wants one of all packages or of none.
    hashes = [] if name == _DEV else ["--generate-hashes"]
    command = ["uv", "pip", "compile", "--quiet", *options, *hashes, *limits, "-"]
    text = subprocess.run(command, input="\n".join(wanted), capture_output=True, text=True, check=True).stdout
    head = f"# Written by release/locks.py for Python {PYTHON}: change pyproject.toml, and write it again.\n"
    path(name).write_text(f"{head}# of {digest(wanted)}\n{text}", encoding="utf-8")


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description="Write the locks of the images and of the tests.")
    parser.add_argument("--check", action="store_true", help="exit 1 if a lock is stale, and write nothing")
    if parser.parse_args().check:
        if names := stale():
            sys.exit(f"locks: {', '.join(names)} made of other requirements; run: python -m release.locks")
        return
    for name, wanted in requirements().items():
        write(name, wanted)


if __name__ == "__main__":
    main()
