"""What the scripts of the cluster do where there is no cluster: they say what is missing, and change nothing."""

from __future__ import annotations

import os
import subprocess
import sys
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
