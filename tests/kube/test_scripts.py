"""What the scripts of the cluster do where there is no cluster: they say what is missing, and change nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def run(script: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """A script's end, with these variables and a path of its own."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    return subprocess.run([FOLDER / script, *words], check=False, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("script", sorted(path.name for path in FOLDER.glob("*.sh")))
def test_a_script_is_understood_by_sh(script: str) -> None:
    assert subprocess.run(["sh", "-n", FOLDER / script], check=False, capture_output=True).returncode == 0


def test_a_build_without_go_names_the_binaries_that_are_missing(tmp_path: Path) -> None:
    there = tmp_path / "kubelet"
    there.touch(mode=0o755)
    commands = tmp_path / "commands"
    commands.mkdir()
    for name in ("sh", "dirname"):
        (commands / name).symlink_to(f"/bin/{name}" if name == "sh" else f"/usr/bin/{name}")
    ended = run("build.sh", PATH=str(commands), KUBE_BIN=str(tmp_path), KUBE_CACHE=str(tmp_path / "cache"))
    assert ended.returncode == 2
    assert "there is no Go to build them" in ended.stderr
    assert "kube-apiserver" in ended.stderr
    assert "kubelet" not in ended.stderr
    assert not (tmp_path / "cache").exists()


def test_a_folder_with_all_binaries_is_taken_as_it_is(tmp_path: Path) -> None:
    text = subprocess.run(
        ["sh", "-c", f". {FOLDER}/settings.sh; echo $BINARIES"],
        check=True,
        env={"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    for name in text.stdout.split():
        (tmp_path / name).touch(mode=0o755)
    ended = run("build.sh", KUBE_BIN=str(tmp_path), KUBE_CACHE=str(tmp_path / "cache"))
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_end_of_a_cluster_that_is_not_there_is_no_error(tmp_path: Path) -> None:
    assert run("down.sh", KUBE_CACHE=str(tmp_path)).returncode == 0


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is no machine."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


@pytest.fixture
def commands(tmp_path: Path) -> str:
    """A folder with what up.sh and down.sh need in order to begin, and no Go. Whoever runs them is root, and no control
    group of this machine is found."""
    folder = tmp_path / "commands"
    folder.mkdir()
    (folder / "id").write_text("#!/bin/sh\necho 0\n")
    (folder / "id").chmod(0o755)
    for name in ("sh", "dirname", "basename", "cat", "cut", "date", "mkdir", "rm"):
        (folder / name).symlink_to(str(shutil.which(name)))
    for name in ("find", "unshare", "nsenter", "ip", "openssl"):
        (folder / name).symlink_to(str(shutil.which("true")))
    return str(folder)


def machine(cache: Path, process: subprocess.Popen[bytes], started: str = "") -> Path:
    """The folder of a machine `control` whose first process was that one; it was started then, or when it says."""
    folder = cache / "run" / "control"
    folder.mkdir(parents=True)
    (folder / "pid").write_text(f"{process.pid}\n")
    command = ["sh", "-c", f". {FOLDER}/settings.sh; started {process.pid}"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (folder / "started").write_text(started or told)
    return folder


def test_a_cluster_that_runs_is_left_alone_and_what_a_killed_one_left_is_removed(
    tmp_path: Path, commands: str, stranger: subprocess.Popen[bytes]
) -> None:
    """Another process has the number of its machine's first process by now, and goes on."""
    folder = machine(tmp_path / "cache", stranger)
    ended = run("up.sh", PATH=commands, KUBE_CACHE=str(tmp_path / "cache"))
    assert ended.returncode == 2 and folder.exists()
    assert "a cluster is there already; make kube-down ends it" in ended.stderr
    (folder / "started").write_text("long ago\n")
    ended = run("up.sh", PATH=commands, KUBE_CACHE=str(tmp_path / "cache"))
    assert "of an earlier cluster nothing runs; removing what it left" in ended.stderr
    # It went on, and there is no Go.
    assert (ended.returncode, "there is no Go to build them" in ended.stderr) == (2, True)
    assert not folder.exists()
    assert stranger.poll() is None


@pytest.mark.parametrize("action", ["run", "near"])
def test_nothing_is_run_in_a_machine_that_is_gone(
    tmp_path: Path, action: str, stranger: subprocess.Popen[bytes]
) -> None:
    machine(tmp_path, stranger, started="long ago\n")
    ended = run("machine.sh", action, "control", "true", KUBE_CACHE=str(tmp_path))
    assert ended.returncode == 2
    assert "there is no machine control; make kube starts all" in ended.stderr


@pytest.mark.chart
def test_drills_without_a_cluster_say_how_to_start_one(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.kube.drills", "pod deleted"],
        check=False,
        cwd=FOLDER.parents[1],
        env={**os.environ, "KUBE_CACHE": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1
    assert ended.stderr.endswith("start one with make kube\n")
