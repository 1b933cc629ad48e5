"""Commands that start this installation of `framehold`. They use paths, because MCP clients know no virtual
environment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def beside() -> Path:
    """The path of the script `framehold` beside this interpreter. The file may not exist."""
    return Path(sys.executable).absolute().with_name("framehold")


def absolute() -> list[str]:
    """The words of a command that starts this `framehold` from any folder."""
    script = beside()
    return [str(script)] if script.is_file() else [sys.executable, "-m", "framehold"]


def stdio(target: str) -> dict[str, Any]:
    """The entry of a client's configuration that starts `framehold stdio TARGET`: `command` and `args`."""
    command, *more = absolute()
    return {"command": command, "args": [*more, "stdio", target]}


def configuration(target: str) -> str:
    """The entry of a client's configuration for TARGET as one line of JSON, which works from any folder.

    A TARGET that is a module's name and was imported from the current folder gets a PYTHONPATH in `env`."""
    place, colon, name = target.partition(":")
    if place.endswith(".py") or "/" in place:
        return json.dumps(stdio(f"{Path(place).absolute()}{colon}{name}"), ensure_ascii=False)
    entry = stdio(target)
    file = Path(getattr(sys.modules.get(place), "__file__", None) or "/")
    if file.is_relative_to(Path.cwd()) and "site-packages" not in file.parts:
        entry["env"] = {"PYTHONPATH": str(Path.cwd())}
    return json.dumps(entry, ensure_ascii=False)
