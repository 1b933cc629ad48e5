"""What `framehold status`, the API and the dashboard report of the fleet, each in one form, so that they compare.

Figures are left out: each of them is asked a moment later than the one before, and ages grow.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import httpx2
from typer.testing import CliRunner, Result

from framehold_cli.commands import app
from tests.dashboard.screen import Screen
from tests.node.operating import SHOWN, TOKEN

HARM, RISK = "harm", "risk"
_VERDICTS = {0: "", 1: HARM, 2: RISK}
"""The severity that each exit code of `framehold status` stands for."""
_MARKS = {"!!": HARM, "!": RISK}
_TONES = {"bad": HARM, "warn": RISK, "good": ""}
"""The severity that each tone of the dashboard's box stands for."""
_AGE = re.compile(r"\d+(?:[.,]\d+)* ?(?:d|h|m|s|ms)\b(?: \d+[hms]\b)?")
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")
_MENDS = re.compile("(was|were) lost and (is|are) back|orphaned calls? waits?|Nothing needs you")
"""Lines of the dashboard's box that need no operator."""
_LABELS = {"not heard of by the store, answering": "unheard"}
"""How the dashboard writes states, where it has other words."""
_PAGES = re.compile(r" Show \w+$")
"""The link to a page of the dashboard, behind a problem."""
_READ = """() => {
  const all = (where) => [...document.querySelectorAll(where)].map((one) => one.innerText.trim());
  const tile = [...document.querySelectorAll(".stat")].find((one) => one.querySelector("dt")?.innerText === "Store");
  return {
    tone: document.querySelector(".attention .callout").classList[1],
    lines: all(".attention .callout li, .attention .callout p"),
    states: all("[aria-label=Nodes] tbody td[data-name=State]"),
    store: tile.querySelector(".figure").innerText.trim(),
  };
}"""


class Problem(NamedTuple):
    """What needs an operator: how bad it is, its kind, and the node and the tool that it is about."""

    severity: str
    kind: str
    node: str = ""
    tool: str = ""


class Report(NamedTuple):
    """What one voice reports: the worst severity, each problem as a text with what to do and where to read on, how many
    nodes are in each state, and whether the store answers."""

    worst: str
    problems: frozenset[str]
    nodes: Mapping[str, int]
    store: str


class Voices(NamedTuple):
    """The reports of API, status and dashboard at one router; and the problems of the API by their kinds."""

    found: frozenset[Problem]
    api: Report
    status: Report
    dashboard: Report

    @property
    def agree(self) -> bool:
        """Whether all reports are equal."""
        return self.api == self.status == self.dashboard

    def __str__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self._asdict().items())


async def voices(root: str, screen: Screen) -> Voices:
    """Ask all of them at one router."""
    overview = await ask(root, "overview")
    found = frozenset(Problem(*(one[part] for part in Problem._fields)) for one in overview["problems"])
    return Voices(found, _api(overview), await _status(root), await _dashboard(screen))


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


def _api(overview: Mapping[str, Any]) -> Report:
    problems = overview["problems"]
    texts = (_sentence(one["text"], one["next"], one["link"]) for one in problems)
    severities = {one["severity"] for one in problems}
    return Report(_worst(severities), frozenset(texts), overview["nodes"], overview["store"])


async def _status(root: str) -> Report:
    code, out = await command(root, "status")
    lines = out.splitlines()
    facts = {words[0]: words[1] for line in lines if len(words := line.split(None, 1)) == 2}
    found, marks = [], set()
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        mark, _, text = line.partition(" ")
        if mark in _MARKS:
            do, _, link = below.removeprefix("   -> ").partition(" (docs/")
            found.append(_sentence(text, do, f"docs/{link[:-1]}" if link else ""))
            marks.add(_MARKS[mark])
    worst = _VERDICTS[code]
    assert worst == _worst(marks), out
    counts = (one.split(None, 1) for one in facts["nodes"].partition(" (")[0].split(", ") if one != "none")
    nodes = {state: int(count) for count, state in counts}
    return Report(worst, frozenset(found), nodes, _store(facts["store"]))


async def _dashboard(screen: Screen) -> Report:
    read = await screen.page.evaluate(_READ)
    needed = [line for line in read["lines"] if not _MENDS.search(line)]
    assert bool(needed) is ("Nothing needs you." not in read["lines"]), read
    worst = _TONES[read["tone"]] if needed else ""
    # A node that was lost has a row; it has no lease, so no other voice counts it.
    nodes = Counter(_LABELS.get(state, state) for state in read["states"] if state != "lost")
    return Report(worst, frozenset(map(plain, needed)), dict(nodes), _store(read["store"]))


def _worst(severities: Iterable[str]) -> str:
    return next((one for one in (HARM, RISK) if one in severities), "")


def _store(text: str) -> str:
    return next((word for word in ("full", "silent") if text.startswith(word)), "answers")


def _sentence(text: str, do: str, link: str) -> str:
    return plain(f"{text}. {do}. {link if link.startswith('docs/') else ''}")


def plain(line: str) -> str:
    """A text without figures, capitals and the names of links. All voices write it alike then."""
    return _FIGURE.sub("#", _AGE.sub("#", _PAGES.sub("", " ".join(line.split())))).lower().strip()
