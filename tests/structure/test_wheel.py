"""What a user installs is whole: the built wheel holds every module, Lua script and marker of the packages."""

import subprocess
import sys
import zipfile
from collections.abc import Iterable
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "framehold_core": ROOT / "core",
    "framehold_store": ROOT / "store",
    "framehold_router": ROOT / "router",
    "framehold": ROOT / "node",
    "framehold_loadtest": ROOT / "loadtest",
}
# Made by running the code, never by writing it.
BYPRODUCTS = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterable[zipfile.ZipFile]:
    """The wheel of this tree, built without isolation so that no network is needed."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    [path] = out.glob("framehold-*.whl")
    with zipfile.ZipFile(path) as opened:
        yield opened


def on_disk(pattern: str) -> set[str]:
    """The packages' files by the names that they must have in the wheel."""
    return {
        path.relative_to(folder).as_posix()
        for package, folder in PACKAGES.items()
        for path in (folder / package).rglob(pattern)
        if path.is_file() and not BYPRODUCTS & set(path.parts)
    }


def test_every_lua_script_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """A store without its scripts imports, and fails on the first commit."""
    scripts = on_disk("*.lua")
    assert scripts, "no Lua script in any package: has the folder moved?"
    assert scripts <= set(wheel.namelist())


def test_every_package_is_marked_as_typed(wheel: zipfile.ZipFile) -> None:
    """Without py.typed a user's type checker ignores all our types."""
    assert {f"{package}/py.typed" for package in PACKAGES} <= set(wheel.namelist())


def test_every_module_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """No module is lost, least of all one that .gitignore happens to match."""
    modules = on_disk("*.py")
    assert {f"{package}/__init__.py" for package in PACKAGES} <= modules
    assert modules <= set(wheel.namelist())


def test_the_dashboard_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """A router without its files doesn't start, and one without a part of them shows an empty page."""
    names = {name.partition("/dashboard/assets/")[2] for name in wheel.namelist() if "/dashboard/assets/" in name}
    assert {"index.html", "app.js", "vendor/preact.mjs", "vendor/LICENSES.txt"} <= names
    assert {f"framehold_router/dashboard/assets/{name}" for name in names} == {
        name for name in on_disk("*") if "/dashboard/assets/" in name
    }


def test_every_other_file_of_a_package_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    """Dashboard files and whatever data a package holds ship as they stand."""
    assert on_disk("*") - set(wheel.namelist()) == set()


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    """A top-level `tests` or `core` would collide with a user's own."""
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_the_command_is_installed(wheel: zipfile.ZipFile) -> None:
    """`framehold` on the command line is the CLI's main."""
    [entry] = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    assert "framehold = framehold.cli:main" in wheel.read(entry).decode()


def test_the_commands_of_the_load_tests_are_announced(wheel: zipfile.ZipFile) -> None:
    """`framehold` finds what stands above it by these entry points alone."""
    [announced] = [name for name in wheel.namelist() if name.endswith(".dist-info/entry_points.txt")]
    said = ConfigParser()
    said.read_string(wheel.read(announced).decode())
    assert dict(said["framehold.commands"]) == {"load": "framehold_loadtest.cli:add"}
