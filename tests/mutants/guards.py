"""The guards of the Lua scripts: each condition under a comment `-- guard: what it keeps out` is taken out as a whole,
and without each of its parts.

    -- guard: a second answer
    if a and b then return x end      -> if false then ..., if b then ..., if a then ...
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from framehold_store.scripts import LuaScript

ROOT = Path(__file__).resolve().parents[2]
"""Nothing of Framehold is imported here: the module of a mutant is imported with its change (`hook`)."""
FOLDER = "store/framehold_store/scripts"
FILES = tuple(sorted(f"{FOLDER}/{path.name}" for path in (ROOT / FOLDER).glob("*.lua")))
"""All scripts, and the heads that are put in front of them."""
_MARK = re.compile(r"^ *-- guard: (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"\n *(?:else)?if (.+?) then\b", re.DOTALL)
_TOKEN = re.compile(r"'[^']*'|[()\[\]{}]|\s+(and|or)\s|.", re.DOTALL)


class Guard(NamedTuple):
    """A condition that keeps something out. It stands at `start` in its script. `instead` is what may stand there, and
    `left_out` which part of the condition that leaves out, empty for the whole."""

    line: int
    keeps_out: str
    start: int
    condition: str
    instead: str
    left_out: str


def _parts(condition: str, word: str) -> list[str]:
    """The parts of a condition between `and` or `or` outside of brackets."""
    parts, depth = [""], 0
    for token in _TOKEN.finditer(condition):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if token[1] == word and depth == 0:
            parts.append("")
        else:
            parts[-1] += token[0]
    return parts


def _without(condition: str) -> Iterator[tuple[str, str]]:
    """What may stand in place of a condition, and what that leaves out."""
    yield "false", ""
    word = "or" if len(_parts(condition, "or")) > 1 else "and"
    parts = _parts(condition, word)
    if len(parts) > 1:
        for at, part in enumerate(parts):
            yield f" {word} ".join((*parts[:at], *parts[at + 1 :])), part


def guards(file: str) -> Iterator[Guard]:
    """The guards of a script without one decision each."""
    text = (ROOT / file).read_text()
    for mark in _MARK.finditer(text):
        line = text.count("\n", 0, mark.start()) + 1
        found = _CONDITION.match(text, mark.end())
        assert found is not None, f"{file}:{line} is marked as a guard, and no condition follows"
        for instead, left_out in _without(found[1]):
            yield Guard(line, mark[1], found.start(1), found[1], instead, left_out)


def without(text: str, guard: Guard) -> str:
    """A script without one decision."""
    return text[: guard.start] + guard.instead + text[guard.start + len(guard.condition) :]


def exchange(file: str, number: int, scripts: dict[str, LuaScript]) -> dict[str, str]:
    """Have scripts run without one decision of a file. The new digest of each one's text by the old one."""
    text = (ROOT / file).read_text()
    changed, exchanged = without(text, list(guards(file))[number]), {}
    for script in scripts.values():
        if text in script.text:
            made = script.text.replace(text, changed)
            exchanged[script.sha] = hashlib.sha1(made.encode(), usedforsecurity=False).hexdigest()
            object.__setattr__(script, "text", made)
            object.__setattr__(script, "sha", exchanged[script.sha])
    return exchanged
