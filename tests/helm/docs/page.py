"""docs/kubernetes.md as tests read it: top to bottom, as somebody follows it.

A block whose first line is `# fleet.yaml` adds to that file; one that says `# fleet.yaml, instead` stands in for what
came before it, and is not kept. Commands are the lines of `sh` blocks, and what reads like one in a line of text.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.helm.chart.golden import over
from tests.helm.runbook import ROOT

PAGE = ROOT / "docs" / "kubernetes.md"
NAMESPACE, RELEASE = "mcp", "framehold"
PROGRAMS = ("docker", "framehold", "helm", "kind", "kubectl")

_BLOCK = re.compile(r"(?ms)^```(\w+)\n(.*?)^```$")
_INNER = re.compile(r"\$\(([^()]*)\)")
_INLINE = re.compile(r"`((?:framehold|helm|kubectl) [^`\s]+ [^`]+)`")
_ROW = re.compile(r"(?m)^\| (`[^|]*)\|([^|]*)\|([^|]*)\|$")
_CHECKED = Path(__file__).with_name("README.md")

Values = dict[str, Any]


@dataclass(frozen=True)
class Command:
    """One program that is started. `words`: as the shell hands them over, `-n mcp` left out. `file`: fleet.yaml by
    then. `prose`: it stands in a line of text, for whoever needs it."""

    words: tuple[str, ...]
    file: Values
    prose: bool = False

    def __str__(self) -> str:
        return shlex.join(self.words)

    def options(self, name: str) -> list[str]:
        """What follows each `name`."""
        return [value for option, value in zip(self.words, self.words[1:], strict=False) if option == name]


@dataclass(frozen=True)
class Row:
    """What the page says of commands that begin so. `how`: one of the words that stand above the table."""

    beginnings: tuple[tuple[str, ...], ...]
    how: str
    by: str

    def covers(self, command: Command) -> int:
        """How many words they have in common from the first on; 0 where the command begins otherwise."""
        return max(len(each) if command.words[: len(each)] == each else 0 for each in self.beginnings)


@cache
def text() -> str:
    """All of it."""
    return PAGE.read_text()


def blocks(language: str) -> list[str]:
    """The blocks of that language."""
    return [block for kind, block in _BLOCK.findall(text()) if kind == language]


@cache
def files() -> tuple[Values, ...]:
    """fleet.yaml after each block that is part of it, or stands in for a part."""
    kept: Values = {}
    found = []
    for block in blocks("yaml"):
        now = over(kept, yaml.safe_load(block))
        found.append(now)
        if "instead" not in block.split("\n", 1)[0]:
            kept = now
    return tuple(found)


@cache
def commands() -> tuple[Command, ...]:
    """In their order; those that stand in lines of text at the end, when all of fleet.yaml is known."""
    file: Values = {}
    found: list[Command] = []
    for kind, block in _BLOCK.findall(text()):
        if kind == "yaml" and "instead" not in block.split("\n", 1)[0]:
            file = over(file, yaml.safe_load(block))
        elif kind == "sh":
            found += (Command(words, file) for line in block.splitlines() for words in _started(line))
    prose = _BLOCK.sub("", text())
    return (*found, *(Command(words, file, True) for line in _INLINE.findall(prose) for words in _started(line)))


def rows() -> list[Row]:
    """The table of README.md beside this file: what was checked, and how."""
    return [
        Row(tuple(tuple(shlex.split(each)) for each in re.findall(r"`(.+?)`", names)), how.split()[0].strip("*,:;"), by)
        for names, how, by in _ROW.findall(_CHECKED.read_text())
    ]


def _started(line: str) -> Iterator[tuple[str, ...]]:
    """The programs that a line of a shell starts, those within `$(...)` and behind `--` too."""
    for inner in _INNER.findall(line):
        yield from _started(inner)
    lexer = shlex.shlex(_INNER.sub("SAID", line), posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    command: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set("|&;"):
            command.append(word)
            continue
        yield from _programs(command)
        command = []


def _programs(words: list[str]) -> Iterator[tuple[str, ...]]:
    while words and (words[0] == "export" or re.match(r"\w+=", words[0])):
        words = words[1:]
    if not words:
        return
    at = words.index("-n") if "-n" in words and words[0] in ("helm", "kubectl") else None
    if at is not None:
        assert words[at + 1] == NAMESPACE, f"{shlex.join(words)}: another namespace than the page's"
        words = [*words[:at], *words[at + 2 :]]
    outer, mark, inner = words, "--" in words, words[words.index("--") + 1 :] if "--" in words else []
    yield tuple(outer)
    if mark and words[0] == "kubectl":
        yield from _programs(inner)
