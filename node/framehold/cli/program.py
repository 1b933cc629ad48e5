"""This very `framehold`, as others start it: by a path, since clients know no virtual environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def beside() -> Path:
    """Where the script is that was installed with this interpreter, if it was."""
    return Path(sys.executable).absolute().with_name("framehold")


def absolute() -> list[str]:
    """The words that start it from any folder."""
    script = beside()
    return [str(script)] if script.is_file() else [sys.executable, "-m", "framehold"]


def stdio(target: str) -> dict[str, Any]:
    """What a client's configuration says to start `framehold stdio TARGET`."""
    command, *more = absolute()
    return {"command": command, "args": [*more, "stdio", target]}


def configuration(target: str) -> str:
    """The same as one line of JSON, fit for any folder. A TARGET that was imported from this folder by its name is
    found there again."""
    place, colon, name = target.partition(":")
    if place.endswith(".py") or "/" in place:
        return json.dumps(stdio(f"{Path(place).absolute()}{colon}{name}"), ensure_ascii=False)
    entry = stdio(target)
    file = Path(getattr(sys.modules.get(place), "__file__", None) or "/")
    if file.is_relative_to(Path.cwd()) and "site-packages" not in file.parts:
        entry["env"] = {"PYTHONPATH": str(Path.cwd())}
    return json.dumps(entry, ensure_ascii=False)
