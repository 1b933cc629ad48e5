"""The locks: in step with what the packages depend on; those of the images have a hash for each file."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from release import locks
from release.locks import pins

LOCKS = ("build", "runtime", "loadtest")


def test_locks_are_made_of_the_present_requirements() -> None:
    """Else: `python -m release.locks`, with uv and an index."""
    done = subprocess.run([sys.executable, locks.__file__, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_another_requirement_makes_a_lock_stale(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(locks, "_BESIDE", ("tini>=1",))
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


WITHOUT_THE_STAND_IN = """
import importlib, pkgutil, sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("fakeredis", "lupa", "sortedcontainers"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nothing())
count = 0
for room in ("framehold_core", "framehold_store", "framehold_fleet", "framehold_router", "framehold", "framehold_cli"):
    package = importlib.import_module(room)
    for module in pkgutil.walk_packages(package.__path__, f"{room}."):
        if module.name not in ("framehold_store.embedded", "framehold.__main__"):
            importlib.import_module(module.name)
            count += 1
print(count)
from framehold_store import StoreConfig, open_store
try:
    open_store(StoreConfig("embedded://"), lambda: 0.0)
except Exception as error:
    print(type(error).__name__, error)
"""


def test_images_need_no_stand_in_for_redis() -> None:
    """They have no fakeredis, and no lupa, whose Lua reaches Python. All else of them is imported without."""
    assert not {"fakeredis", "lupa", "sortedcontainers"} & pins("runtime").keys()
    done = subprocess.run([sys.executable, "-c", WITHOUT_THE_STAND_IN], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, refusal = done.stdout.splitlines()[-2:]
    assert int(count) > 300 and refusal.startswith("ConfigError embedded:// needs fakeredis")
