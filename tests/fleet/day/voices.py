"""What `framehold status`, the API and the dashboard report of the fleet is asked for here, and made comparable."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx2
from typer.testing import CliRunner, Result

from framehold_cli.commands import app
from tests.kit.operators import SHOWN, TOKEN

HARM, RISK = "harm", "risk"
_AGE = re.compile(r"\d+(?:[.,]\d+)* ?(?:d|h|m|s|ms)\b(?: \d+[hms]\b)?")
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_PAGES = re.compile(r" Show \w+$")
"""The link to a page of the dashboard, behind a problem."""


class Problem(NamedTuple):
    """What needs an operator: how bad it is, its kind, and the node and the tool that it is about."""

    severity: str
    kind: str
    node: str = ""
    tool: str = ""


async def ask(root: str, path: str) -> Any:
    """The answer of a router's API, with the admin token."""
    async with httpx2.AsyncClient(timeout=10) as http:
        response = await http.get(f"{root}/api/v1/{path}", headers=SHOWN)
    assert response.status_code == 200, response.text
    return response.json()


_TERMINAL = threading.Lock()
"""The runner puts its own streams in the place of the process's, so one command runs at a time."""


def invoked(words: Sequence[str], env: Mapping[str, str] | None = None) -> Result:
    """Run a command of `framehold` in this process."""
    with _TERMINAL:
        return CliRunner(env=env).invoke(app, words)


async def command(root: str, *words: str) -> tuple[int, str]:
    """Run a command of `framehold` at a router; its exit code and what it prints."""
    where = ["--url", root, "--token", TOKEN]
    done = await asyncio.to_thread(invoked, [*words, *where])
    return done.exit_code, done.stdout


def plain(line: str) -> str:
    """A text without figures, capitals and the names of links. All voices write it alike then."""
    return _FIGURE.sub("#", _AGE.sub("#", _PAGES.sub("", " ".join(line.split())))).lower().strip()
