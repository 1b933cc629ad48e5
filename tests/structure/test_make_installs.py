"""What `make` installs, and when: each target has what it needs, and no more. Programs of these tests only note how
they were called, so nothing is downloaded."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COPIED = ("Makefile", "pyproject.toml", "loadtest/pyproject.toml", "tests/dev.lock", "tests/system_packages.sh")
SYSTEM = ("sh", "make", "touch", "mkdir", "cp")
"""All programs that the recipes and the stand-ins use; none of them is a Python or uv."""
SERVERS = ("redis-server", "haproxy", "npm", "promtool", "chromium", "firefox", "iptables", "faketime")
"""The programs of the system that stages start. They are stand-ins."""
PYTHON = """#!/bin/sh
case "$*" in
  "-c import sys"*) exit "${TOO_OLD:-0}" ;;
esac
echo "python $*" >> "$NOTES"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin"; for name in python framehold ruff; do cp "$TOOL" "$3/bin/$name"; done ;;
  *install*) exit "${BROKEN:-0}" ;;
esac
"""
UV = """#!/bin/sh
echo "uv $*" >> "$NOTES"
case "$1" in
  venv) for last; do :; done; mkdir -p "$last/bin"; cp "$TOOL" "$last/bin/python"; cp "$TOOL" "$last/bin/framehold" ;;
esac
"""


class Clone:
    """A folder with the Makefile, and a PATH with stand-ins for Python, servers and, if wanted, uv."""

    def __init__(self, folder: Path, uv: bool, lacks: tuple[str, ...] = ()) -> None:
        self.folder, self._bin = folder / "clone", folder / "bin"
        for name in ("loadtest", "tests"):
            (self.folder / name).mkdir(parents=True)
        self._bin.mkdir()
        for name in COPIED:
            shutil.copy(ROOT / name, self.folder / name)
        for name in SYSTEM:
            found = shutil.which(name)
            assert found, name
            (self._bin / name).symlink_to(found)
        for name in SERVERS:
            if name not in lacks:
                self._program(name, "#!/bin/sh\n")
        self._program("python3", PYTHON)
        if uv:
            self._program("uv", UV)
        (folder / "tool").write_text(PYTHON.replace("-m venv", "-m never"))
        (folder / "tool").chmod(0o755)
        self._notes = folder / "notes"
        self._environment = {"PATH": str(self._bin), "NOTES": str(self._notes), "TOOL": str(folder / "tool")}

    def _program(self, name: str, text: str) -> None:
        (self._bin / name).write_text(text)
        (self._bin / name).chmod(0o755)

    def make(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run make; what it said and whether it failed."""
        command = [str(self._bin / "make"), *words]
        environment = {**self._environment, **more}
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def ran(self) -> list[str]:
        """The calls of stand-ins since the last question, without those that run what was installed."""
        lines = self._notes.read_text().splitlines() if self._notes.exists() else []
        self._notes.unlink(missing_ok=True)
        return [line for line in lines if "venv" in line or "install" in line]

    def edit(self, name: str) -> None:
        """Make a file newer than all stamps, as an edit does."""
        stamps = [path.stat().st_mtime for path in (self.folder / ".venv").glob(".*")]
        os.utime(self.folder / name, (max(stamps) + 10,) * 2)


PIP = "python -m pip install --quiet --disable-pip-version-check"
TEST = f"{PIP} -c tests/dev.lock -e .[test]"
UV_PIP = "uv pip install --quiet --compile-bytecode --python .venv/bin/python"


@pytest.mark.parametrize(
    ("uv", "venv", "install"),
    [
        (False, "python -m venv .venv", PIP),
        (True, "uv venv --quiet --seed --allow-existing --python python3 .venv", UV_PIP),
    ],
    ids=["pip", "uv"],
)
def test_up_installs_what_running_needs_and_says_so(tmp_path: Path, uv: bool, venv: str, install: str) -> None:
    """The first `make up` installs the package alone, and says so before it; the second installs nothing."""
    clone = Clone(tmp_path, uv)
    result = clone.make("up")
    assert result.returncode == 0, result.stderr
    assert clone.ran() == [venv, f"{install} -e ."]
    first, second = result.stdout.splitlines()[:2]
    assert first == f"making .venv with {'uv' if uv else 'python3 -m venv'} ..."
    assert second == "installing what running needs into .venv (130 MB, about a minute, once) ..."
    assert "installing" not in clone.make("up").stdout
    assert clone.ran() == []


def test_a_target_may_have_a_blank_in_its_name(tmp_path: Path) -> None:
    clone = Clone(tmp_path, uv=False)
    for target, words in (("my server.py", ["my server.py"]), ("", [])):
        last = clone.make("-n", "up", f"TARGET={target}").stdout.splitlines()[-1]
        assert shlex.split(last) == ["exec", ".venv/bin/framehold", "up", *words]


def test_tests_install_the_rest_into_the_same_environment(tmp_path: Path) -> None:
    """Then nothing is left to install for `make up`, until a pyproject.toml changes: each target installs its own."""
    clone = Clone(tmp_path, uv=False)
    clone.make("up")
    clone.ran()
    result = clone.make("format")
    assert "installing what test needs into .venv and on this machine (170 MB, once) ..." in result.stdout, result
    assert clone.ran() == [TEST]
    clone.make("up")
    clone.make("format")
    assert clone.ran() == []
    clone.edit("tests/dev.lock")
    clone.make("up")
    assert clone.ran() == []
    clone.make("format")
    assert clone.ran() == [TEST]
    clone.edit("pyproject.toml")
    clone.make("up")
    assert clone.ran() == [f"{PIP} -e ."]


@pytest.mark.parametrize(
    ("stage", "installed"),
    [
        ("chart", "-e .[chart]"),
        ("browser", "-e .[browser]"),
        ("docs", "-e .[docs]"),
        ("load", "-e . -e ./loadtest[peers]"),
        ("release", "-e .[release]"),
        # Programs of the system are no Python packages.
        *((stage, "") for stage in ("npm", "firefox", "day")),
    ],
)
def test_a_stage_installs_its_tools_alone(tmp_path: Path, stage: str, installed: str) -> None:
    """Once, with the versions of the lock, and it says before how much that is."""
    clone = Clone(tmp_path, uv=False)
    result = clone.make(f".venv/.{stage}")
    packages = [f"{PIP} -c tests/dev.lock {installed}"] if installed else []
    assert not packages or re.search(
        rf"installing what {stage} needs into .venv and on this machine \(\d+ MB, once\)", result.stdout
    )
    assert clone.ran() == ["python -m venv .venv", *packages]
    clone.make(f".venv/.{stage}")
    assert clone.ran() == []


def test_a_missing_program_of_the_system_is_named(tmp_path: Path) -> None:
    """Who may not install it gets the one line that does, and no tool of the stage is installed."""
    clone = Clone(tmp_path, uv=False, lacks=("chromium",))
    result = clone.make(".venv/.browser")
    assert result.returncode == 2
    assert "needed on PATH: chromium; install these with your system's package manager" in result.stderr
    assert clone.ran() == ["python -m venv .venv"]


def test_what_could_not_be_installed_is_tried_again(tmp_path: Path) -> None:
    """An installation that fails, for want of a network say, leaves no stamp, and nothing is started."""
    clone = Clone(tmp_path, uv=False)
    assert clone.make("up", BROKEN="1").returncode == 2
    assert clone.ran()[-1] == f"{PIP} -e ."
    assert clone.make("up").returncode == 0
    assert clone.ran() == [f"{PIP} -e ."]


def test_a_python_that_is_too_old(tmp_path: Path) -> None:
    """It is refused by name. uv brings another one, unless this one was asked for."""
    without, beside = Clone(tmp_path / "without", uv=False), Clone(tmp_path / "beside", uv=True)
    result = without.make("up", TOO_OLD="1")
    assert result.returncode == 2
    assert "make: python3 is missing or older than 3.11; name another: make PYTHON=python3.12 ...\n" in result.stderr
    assert without.ran() == []
    assert beside.make("up", TOO_OLD="1").returncode == 0
    assert beside.ran()[0] == "uv venv --quiet --seed --allow-existing --python >=3.11 .venv"
    other = Clone(tmp_path / "named", uv=True)
    assert other.make("up", "PYTHON=python3", TOO_OLD="1").returncode == 2
    assert other.ran() == []


def test_an_environment_of_its_own_folder(tmp_path: Path) -> None:
    """`make nightly` tests on other Pythons: `make VENV=.venv/3.13 PYTHON=...`."""
    clone = Clone(tmp_path, uv=False)
    clone.make("format", "VENV=.venv/3.13")
    assert clone.ran() == ["python -m venv .venv/3.13", TEST]
    clone.make("format", "VENV=.venv/3.14", "LOCK=")
    assert clone.ran()[-1] == f"{PIP} -e .[test]", "without a lock the newest versions are taken"
    assert (clone.folder / ".venv/3.13/.test").exists() and not (clone.folder / ".venv/.test").exists()
