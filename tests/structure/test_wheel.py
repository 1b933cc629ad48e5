"""What a user installs is whole: the built wheels hold every module, Lua script and marker of their packages.

Two distributions are built from this tree: `framehold`, and `framehold-loadtest` from the folder `loadtest`.
"""

import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from configparser import ConfigParser
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from tests.structure.rooms import FRAMEHOLD, LOADTEST, ROOT

# Made by running the code, never by writing it.
BYPRODUCTS = {"__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"}


def built(source: Path, out: Path, name: str) -> Path:
    """The wheel of a distribution, built without isolation so that no network is needed."""
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = out.glob(f"{name}-*.whl")
    return path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheels of this tree by the name of their distribution."""
    out = tmp_path_factory.mktemp("wheels")
    return {
        "framehold": built(ROOT, out, "framehold"),
        "framehold-loadtest": built(ROOT / "loadtest", out, "framehold_loadtest"),
    }


@pytest.fixture(scope="module")
def wheel(wheels: dict[str, Path]) -> Iterator[zipfile.ZipFile]:
    """The wheel of `framehold`."""
    with zipfile.ZipFile(wheels["framehold"]) as opened:
        yield opened


@pytest.fixture(scope="module")
def loadtest_wheel(wheels: dict[str, Path]) -> Iterator[zipfile.ZipFile]:
    """The wheel of `framehold-loadtest`."""
    with zipfile.ZipFile(wheels["framehold-loadtest"]) as opened:
        yield opened


def on_disk(pattern: str, packages: dict[str, Path]) -> set[str]:
    """The packages' files by the names that they must have in the wheel."""
    return {
        path.relative_to(folder).as_posix()
        for package, folder in packages.items()
        for path in (folder / package).rglob(pattern)
        if path.is_file() and not BYPRODUCTS & set(path.parts)
    }


def info(wheel: zipfile.ZipFile, name: str) -> str:
    """The text of a file of the wheel's .dist-info; empty without that file."""
    found = [path for path in wheel.namelist() if path.endswith(f".dist-info/{name}")]
    return wheel.read(found[0]).decode() if found else ""


def metadata(wheel: zipfile.ZipFile) -> Message:
    return message_from_string(info(wheel, "METADATA"))


def shown(wheel: zipfile.ZipFile) -> str:
    """What an index shows: the text below the headers."""
    text = metadata(wheel).get_payload()
    assert isinstance(text, str)
    return text


def entry_points(wheel: zipfile.ZipFile, group: str) -> dict[str, str]:
    found = ConfigParser()
    found.read_string(info(wheel, "entry_points.txt"))
    return dict(found[group]) if group in found else {}


def test_a_wheel_holds_every_file_of_its_packages_and_nothing_else(
    wheel: zipfile.ZipFile, loadtest_wheel: zipfile.ZipFile
) -> None:
    """Whatever .gitignore says: a store without its scripts fails on the first commit, a router without its pages does
    not start, and without py.typed a user's type checker ignores our types. A top-level `tests` or `core` would collide
    with a user's own."""
    for packages, opened in ((FRAMEHOLD, wheel), (LOADTEST, loadtest_wheel)):
        names = set(opened.namelist())
        assert on_disk("*", packages) - names == set()
        assert {f"{package}/{name}" for package in packages for name in ("__init__.py", "py.typed")} <= names
        tops = {name.split("/")[0] for name in names}
        assert {top for top in tops if not top.endswith(".dist-info")} == set(packages)
    for name in ("store/scripts/commit.lua", "router/dashboard/assets/vendor/preact.mjs"):
        assert f"framehold_{name}" in wheel.namelist(), "it has moved, or is lost"


def test_the_command_is_installed(wheel: zipfile.ZipFile) -> None:
    """`framehold` on the command line is the CLI's main."""
    assert entry_points(wheel, "console_scripts") == {"framehold": "framehold_cli:main"}


def test_the_commands_of_the_load_tests_are_announced(wheel: zipfile.ZipFile, loadtest_wheel: zipfile.ZipFile) -> None:
    """`framehold` finds what stands above it by these entry points alone, and announces none that it does not hold."""
    assert entry_points(wheel, "framehold.commands") == {}
    assert entry_points(loadtest_wheel, "framehold.commands") == {"load": "framehold_loadtest.cli:add"}


def test_both_distributions_have_one_version_and_ask_for_it(
    wheel: zipfile.ZipFile, loadtest_wheel: zipfile.ZipFile
) -> None:
    """The load tests import what is internal to Framehold, so any other version may break them."""
    version = metadata(wheel)["Version"]
    assert metadata(loadtest_wheel)["Version"] == version
    assert f"framehold=={version}" in metadata(loadtest_wheel).get_all("Requires-Dist", [])
    extras = [line for line in metadata(wheel).get_all("Requires-Dist", []) if "framehold-loadtest" in line]
    assert {re.sub(r"\s|'|\"", "", line) for line in extras} == {
        f"framehold-loadtest=={version};extra==load",
        f"framehold-loadtest[peers]=={version};extra==peers",
    }


def test_what_make_installs_asks_no_index_for_the_load_tests() -> None:
    """The sets are installed from a clone, where both folders are at hand."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    sets = ("test", "chart", "browser", "docs", "release")
    lines = [line for name in sets for line in project["optional-dependencies"][name]]
    assert len(lines) > 20 and [line for line in lines if line.startswith("framehold-")] == []
    assert "-e './loadtest[peers]'" in (ROOT / "Makefile").read_text("utf-8")


def test_an_index_shows_links_that_lead_to_files_of_this_release(
    wheel: zipfile.ZipFile, loadtest_wheel: zipfile.ZipFile
) -> None:
    """There a relative link leads nowhere. Each link to this repository names its tag, and a file that is there."""
    tag = f"v{metadata(wheel)['Version']}"
    page = f"https://github.com/framehold/framehold/blob/{tag}/"
    raw = f"https://raw.githubusercontent.com/framehold/framehold/{tag}/"
    for opened, folder, least in ((wheel, ROOT, 20), (loadtest_wheel, ROOT / "loadtest", 0)):
        text = shown(opened)
        assert text.splitlines()[0] == (folder / "README.md").read_text("utf-8").splitlines()[0]
        links = re.findall(r"\]\(([^)\s]*)\)|(?:src|href)=[\"']([^\"']*)", re.sub(r"(?s)```.*?```", "", text))
        targets = [first or second for first, second in links]
        assert [target for target in targets if not target.startswith("https://")] == []
        own = [target.removeprefix(page).removeprefix(raw) for target in targets if target.startswith((page, raw))]
        assert len(own) >= least
        assert [name for name in own if not (ROOT / name.partition("#")[0]).exists()] == []
        pictures = [name for name in own if name.endswith((".png", ".svg"))]
        assert [name for name in pictures if raw + name not in targets] == []


@pytest.mark.release
def test_an_index_can_show_both(wheels: dict[str, Path]) -> None:
    """What twine finds wrong, an index refuses or shows as plain text."""
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, wheels.values())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout + done.stderr


def test_an_index_shows_where_the_project_is(wheel: zipfile.ZipFile, loadtest_wheel: zipfile.ZipFile) -> None:
    """Both distributions have the same authors and addresses."""
    for opened in (wheel, loadtest_wheel):
        urls = dict(line.split(", ", 1) for line in metadata(opened).get_all("Project-URL", []))
        assert {"Homepage", "Documentation", "Changelog", "Issues", "Security"} == set(urls)
        assert all(url.startswith("https://github.com/framehold/framehold") for url in urls.values())
        assert metadata(opened)["Author"] == "The Framehold maintainers"


def test_both_wheels_bring_the_license(wheel: zipfile.ZipFile, loadtest_wheel: zipfile.ZipFile) -> None:
    licenses = [info(opened, "licenses/LICENSE") for opened in (wheel, loadtest_wheel)]
    assert licenses == [(ROOT / "LICENSE").read_text("utf-8")] * 2


def test_the_load_command_comes_with_the_second_wheel(wheels: dict[str, Path], tmp_path: Path) -> None:
    """Without it nothing is said of it until it is asked for, as in the images; with it the command is there."""
    venv.create(tmp_path, with_pip=False)
    # What both depend on, and nothing of the two themselves: the environment of the tests has them from this tree.
    [site] = tmp_path.glob("lib/python*/site-packages")
    for folder in {Path(path).resolve() for path in sys.path if path.endswith("site-packages")}:
        for found in folder.iterdir():
            if "framehold" not in found.name.lower():
                (site / found.name).symlink_to(found)
    program = tmp_path / "bin" / "framehold"

    def install(name: str) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(tmp_path / "bin" / "python"), "install", "--quiet"]
        command += ["--no-deps", "--no-index", "--ignore-installed", str(wheels[name])]
        subprocess.run(command, check=True, timeout=120)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(program), *words], capture_output=True, text=True, timeout=60, check=False, env={"PATH": "/usr/bin"}
        )

    install("framehold")
    shown = run("--help")
    assert (shown.returncode, shown.stderr, "load" in shown.stdout) == (0, "", False)
    refused = run("load", "kill")
    assert refused.returncode == 2
    assert refused.stderr.endswith("install it with: pip install 'framehold[load]'\n")
    install("framehold-loadtest")
    shown = run("load", "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "SCENARIO" in shown.stdout
