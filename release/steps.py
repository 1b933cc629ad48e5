"""The steps from a committed version to a tag: each is a command, and nothing is tagged unless all have succeeded.

1. nothing is uncommitted, all places state one version, its changelog section is there, its tag is not, and images of
   others are named by their digests
2. both distributions are built, as wheels and as source, into `dist/`
3. twine checks what an index will show
4. the wheel is installed alone into a new environment, which must run it; its packages become the list of parts (SBOM)
5. the release notes and the checksums are written
6. the commit is tagged; the tag has the release notes as its message
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from release import Refused, changelog, images, places

Run = Callable[[Sequence[str], Path], str]
"""Runs a command in a folder, and returns what it printed."""


def run(command: Sequence[str], folder: Path) -> str:
    """Run a command, whose errors and progress the terminal shows.

    Raises:
        Refused: it failed."""
    # A package of this tree must not stand in for one that is to be checked.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Refused(f"{' '.join(command)}: {error}; nothing was tagged") from None
    return done.stdout.strip()


def make(root: Path, run: Run = run) -> None:
    """Make the release that `root`, a clone, has committed. Everything is in `dist` afterwards.

    Raises:
        Refused: a step failed; nothing was tagged."""
    version = places.version(root)
    notes = changelog.section((root / "CHANGELOG.md").read_text("utf-8"), version)
    images.check(root)
    tag = _free_tag(root, version, run)
    dist = root / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    python = sys.executable
    for source in (root, root / "loadtest"):
        _say(f"building {source.name}")
        run([python, "-m", "build", "--outdir", str(dist), str(source)], root)
    built = sorted(map(str, dist.glob("framehold*")))
    _say("checking what an index will show")
    run([python, "-m", "twine", "check", "--strict", *built], root)
    _parts(root, version, run)
    (dist / "release-notes.txt").write_text(notes, "utf-8")
    sums = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(dist.iterdir())]
    (dist / "SHA256SUMS").write_text("".join(sums), "utf-8")
    # Lines that begin with # are headings here, and comments to git unless it is told.
    run(["git", "tag", "--annotate", tag, "--cleanup", "whitespace", "--file", "dist/release-notes.txt"], root)
    print(f"made {tag}; nothing is published yet: release/README.md says how, from `git push origin {tag}` on")


def _free_tag(root: Path, version: str, run: Run) -> str:
    changed = run(["git", "status", "--porcelain"], root)
    if changed:
        raise Refused(f"these files are not committed; nothing was built; commit them, or put them away:\n{changed}")
    tag = f"v{version}"
    if run(["git", "tag", "--list", tag], root):
        raise Refused(
            f"there is a tag {tag} already; nothing was built; take another version: make version VERSION=..."
        )
    return tag


def _parts(root: Path, version: str, run: Run) -> None:
    """Install the wheel as a user does, see that it runs, and write the list of what it consists of (CycloneDX)."""
    _say("installing the wheel, for the list of its parts")
    with tempfile.TemporaryDirectory(prefix="framehold-release-") as folder:
        python = Path(folder) / "bin" / "python"
        run([sys.executable, "-m", "venv", "--without-pip", folder], root)
        [wheel] = (root / "dist").glob(f"framehold-{version}-*.whl")
        install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        run([*install, "--disable-pip-version-check", str(wheel)], root)
        said = run([str(python.with_name("framehold")), "--version"], root)
        if said != f"framehold {version}":
            raise Refused(f"the installed wheel says {said!r}, not 'framehold {version}'; nothing was tagged")
        listing = [sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", "pyproject.toml"]
        file = f"dist/framehold-{version}.cdx.json"
        run([*listing, "--output-reproducible", "--output-format", "JSON", "--output-file", file, str(python)], root)


def _say(step: str) -> None:
    print(f"{step} ...", flush=True)
