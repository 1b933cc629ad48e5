"""A room is known wherever rooms are listed: a new one that is missing somewhere turns a test red."""

import tomllib
from typing import Any

import pytest

from framehold.code.authors import FRAMEHOLD as OWN
from tests.stages.catalogue import SHIPPED
from tests.structure.rooms import FRAMEHOLD, ROOMS, ROOT

TOML: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
TOOLS, HATCH = TOML["tool"], TOML["tool"]["hatch"]["build"]
FOLDERS = {package: folder.name for package, folder in ROOMS.items()}


def test_each_package_is_a_room() -> None:
    """Each folder at the top that has a package of this project."""
    packages = {path.parent.name: path.parents[1].name for path in ROOT.glob("*/framehold*/__init__.py")}
    assert packages == FOLDERS


@pytest.mark.parametrize(
    ("listed", "rooms"),
    [
        (HATCH["targets"]["wheel"]["packages"], {f"{FOLDERS[package]}/{package}" for package in FRAMEHOLD}),
        (HATCH["dev-mode-dirs"], {FOLDERS[package] for package in FRAMEHOLD}),
        (HATCH["targets"]["sdist"]["only-include"], set(FOLDERS.values())),
        (TOOLS["ruff"]["src"], set(FOLDERS.values())),
        (TOOLS["mypy"]["files"], {f"{folder}/{package}" for package, folder in FOLDERS.items()}),
        (TOOLS["mypy"]["mypy_path"], {f"$MYPY_CONFIG_FILE_DIR/{folder}" for folder in FOLDERS.values()}),
        (TOOLS["importlinter"]["root_packages"], set(ROOMS)),
        (" | ".join(TOOLS["importlinter"]["contracts"][0]["layers"]).split(" | "), set(ROOMS)),
        (TOOLS["importlinter"]["contracts"][-1]["ancestors"], set(ROOMS)),
        (OWN, set(ROOMS)),
        (SHIPPED, {FOLDERS[package] for package in FRAMEHOLD}),
        ((ROOT / ".dockerignore").read_text().split(), {f"!{folder}" for folder in FOLDERS.values()}),
        *(
            (
                (ROOT / image / "Dockerfile").read_text().splitlines(),
                {f"COPY {FOLDERS[package]} {FOLDERS[package]}" for package in FRAMEHOLD},
            )
            for image in ("node", "router")
        ),
    ],
)
def test_each_room_is_listed(listed: list[str], rooms: set[str]) -> None:
    """In a distribution, an image, a check, and where the code of an author is told from Framehold's own."""
    assert rooms - set(listed) == set()


def test_each_room_has_a_page_that_says_where_to_start() -> None:
    assert [folder.name for folder in ROOMS.values() if not (folder / "README.md").is_file()] == []
