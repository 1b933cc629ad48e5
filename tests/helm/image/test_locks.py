"""The locks: in step with what the packages depend on; those of the images have a hash for each file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from release import locks

LOCKS = ("build", "runtime", "loadtest")


def pins(name: str) -> dict[str, str]:
    """The version of each package, by its name."""
    found = re.findall(r"(?m)^([\w.-]+)==([^ \\\n]+)", locks.path(name).read_text(encoding="utf-8"))
    return {package.replace("_", "-").lower(): version for package, version in found}


def test_locks_are_made_of_the_present_requirements() -> None:
    """Else: `python -m release.locks`, with uv and an index."""
    done = subprocess.run([sys.executable, locks.__file__, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_another_requirement_makes_a_lock_stale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(locks, "_PROCESS_ONE", ("tini>=1",))
    assert locks.stale() == ["runtime"]


@pytest.mark.parametrize("name", [*LOCKS, "dev"])
def test_every_requirement_is_met_by_a_pinned_version(name: str) -> None:
    pinned = pins(name)
    for text in locks.requirements()[name]:
        wanted = Requirement(text)
        assert wanted.specifier.contains(pinned[wanted.name.lower()]), text


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_has_hashes(name: str) -> None:
    """pip installs nothing else with --require-hashes."""
    text = locks.path(name).read_text(encoding="utf-8")
    blocks = re.split(r"(?m)^(?=[\w.-]+==)", text)[1:]
    assert len(blocks) > 5 and all("--hash=sha256:" in block for block in blocks)
    assert "http" not in re.sub(r"(?m)^#.*$|^[\w.-]+==.*$", "", text), "an index of one machine stands in it"


def test_what_both_images_hold_has_one_version() -> None:
    """The image of the load tests is built on top of the router's."""
    runtime, more = pins("runtime"), pins("loadtest")
    assert {
        name: (runtime[name], more[name]) for name in runtime.keys() & more.keys() if runtime[name] != more[name]
    } == {}
