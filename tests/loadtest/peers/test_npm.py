"""What peers need of npm: what the lock names, once, and a reason where it cannot be had. npm itself is played."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from framehold_loadtest.local.process import NotAvailable
from framehold_loadtest.peers import npm

pytestmark = pytest.mark.load

FAILS = "echo 'npm error code ENOTFOUND' >&2\necho 'npm error network no such host' >&2\nexit 1\n"


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The script that is npm here: it logs its words, and installs a node."""
    script = tmp_path / "npm"
    node = npm.Packages(Path()).node
    script.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/log\nmkdir -p {node.parent}\n: > {node}\n')
    script.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(script))
    return script


def installs(script: Path) -> list[str]:
    """What npm was asked for."""
    return (script.parent / "log").read_text().splitlines()


def test_packages_are_installed_once_and_no_script_of_theirs_is_run(played: Path, tmp_path: Path) -> None:
    packages = npm.ensure(tmp_path / "kept")
    assert npm.ensure(tmp_path / "kept").node == packages.node
    assert packages.node.exists()
    assert packages.weather.read_bytes() == (npm.PINS / "weather.mjs").read_bytes()
    (words,) = installs(played)
    assert words.startswith("ci ") and "--ignore-scripts" in words.split()


def test_a_changed_lock_is_installed_again(played: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    npm.ensure(tmp_path / "kept")
    pins = tmp_path / "pins"
    shutil.copytree(npm.PINS, pins)
    (pins / "package-lock.json").write_text("{}")
    monkeypatch.setattr(npm, "PINS", pins)
    npm.ensure(tmp_path / "kept")
    assert len(installs(played)) == 2


def test_an_install_that_failed_says_so_and_is_tried_again(played: Path, tmp_path: Path) -> None:
    works = played.read_text()
    played.write_text(f"#!/bin/sh\n{FAILS}")
    with pytest.raises(NotAvailable, match="code 1: npm error network no such host"):
        npm.ensure(tmp_path / "kept")
    played.write_text(works)
    assert npm.ensure(tmp_path / "kept").node.exists()


def test_without_npm_the_reason_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(NotAvailable, match="apt-get install -y npm"):
        npm.ensure(tmp_path / "kept")


def test_the_lock_pins_what_is_named_and_names_no_host() -> None:
    """A lock that were resolved against a mirror could be installed nowhere else."""
    assert "://" not in (npm.PINS / "package-lock.json").read_text().replace("https://github.com", "")
