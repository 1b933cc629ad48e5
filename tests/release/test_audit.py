"""The audit of the locks: each package is looked up, and who can't be asked does not pass for who knows of no hole.

OSV is a stand-in of its HTTP API."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from pathlib import Path

import pytest

from framehold_cli.local.ports import free
from release import audit, locks
from release.audit import Pin
from tests.release.served import Reply, served

ROOT = Path(__file__).parents[2]
CONTROLS = {pin: [f"GHSA-{pin.name}"] for pin in audit.CONTROLS}


@dataclass
class Osv:
    """What it knows, and what it was asked."""

    url: str = ""
    known: dict[Pin, list[str]] = field(default_factory=lambda: dict(CONTROLS))
    status: int = 200
    less: int = 0
    """How many results are missing."""
    asked: list[Pin] = field(default_factory=list)

    def answer(self, path: str, _: Message, body: bytes) -> Reply:
        """Each query's holes, in their order; a package without one has an empty object."""
        assert path == "/v1/querybatch"
        queries = json.loads(body)["queries"]
        self.asked = [Pin(each["package"]["ecosystem"], each["package"]["name"], each["version"]) for each in queries]
        holes = [self.known.get(pin) for pin in self.asked]
        results = [{"vulns": [{"id": each, "modified": "2026-07-28"} for each in ids]} if ids else {} for ids in holes]
        return self.status, {}, json.dumps({"results": results[self.less :]}).encode()


@pytest.fixture
def osv() -> Iterator[Osv]:
    made = Osv()
    with served(made.answer) as made.url:
        yield made


def test_every_lock_is_audited(osv: Osv, capsys: pytest.CaptureFixture[str]) -> None:
    """Each package of each lock of the repository, once: of Python, and of npm, from where the dashboard's come."""
    listed = subprocess.run(["git", "ls-files", "*.lock", "*-lock.json"], cwd=ROOT, capture_output=True, check=True)
    assert audit.pinned().keys() == set(listed.stdout.decode().split())
    assert audit.main(osv.url) == 0
    pins = {pin for pins in audit.pinned().values() for pin in pins}
    assert {Pin("PyPI", "uvicorn", locks.pins("runtime")["uvicorn"])} < pins
    assert set(osv.asked) == {*CONTROLS, *pins} and len(osv.asked) == len(pins) + len(CONTROLS) <= 1000
    assert "were looked up; none with a known hole" in capsys.readouterr().out


def test_the_libraries_of_the_dashboard_are_audited() -> None:
    """They are files of the package, and a lock of npm has their versions."""
    vendored = ROOT / "router/framehold_router/dashboard/assets/vendor/LICENSES.txt"
    files, _, _ = vendored.read_text("utf-8").partition("-" * 20)
    shipped = {Pin("npm", *each) for each in re.findall(r"(?m)^(\S+) ([\d.]+), ", files)}
    assert len(shipped) == 3 and shipped <= set(audit.pinned()[audit.NPM[0]])


def test_a_hole_is_told_with_its_lock(osv: Osv, capsys: pytest.CaptureFixture[str]) -> None:
    version = locks.pins("runtime")["uvicorn"]
    osv.known[Pin("PyPI", "uvicorn", version)] = ["GHSA-1", "PYSEC-2"]
    assert audit.main(osv.url) == 1
    says = capsys.readouterr().err
    for lock in ("images/runtime.lock", "tests/dev.lock"):
        assert f"{lock}: uvicorn {version}: https://osv.dev/vulnerability/GHSA-1\n" in says
    assert "build.lock" not in says and says.count("PYSEC-2") == 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"known": {}}, "it knows no hole of jinja2 2.4.1"),
        ({"known": {audit.CONTROLS[0]: ["GHSA-1"]}}, "it knows no hole of minimist 0.0.8"),
        ({"status": 503}, "503"),
        ({"less": 1}, "ValueError"),
    ],
)
def test_an_answer_that_says_nothing_is_a_failure(
    osv: Osv, change: dict[str, object], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index that knows no advisories answers as one whose packages are all good: the controls tell them apart."""
    vars(osv).update(change)
    assert audit.main(osv.url) == 1
    says = capsys.readouterr()
    assert "could not ask" in says.err and why in says.err and "nothing is known of any package" in says.err
    assert says.out == ""


def test_nobody_who_answers_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(f"http://127.0.0.1:{free()}") == 1
    assert "could not ask" in capsys.readouterr().err
