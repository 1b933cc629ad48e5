"""A Dockerfile, read into stages of steps. Only what ours use is understood: anything else is refused."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_KNOWN = {"WORKDIR", "COPY", "RUN", "LABEL", "ENV", "USER", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD", "HEALTHCHECK"}


class Step(NamedTuple):
    """One instruction: its word, and the rest of its line, on one line."""

    word: str
    rest: str

    def pairs(self) -> dict[str, str]:
        """Of ENV and LABEL."""
        return dict(pair.split("=", 1) for pair in shlex.split(self.rest))

    def words(self) -> list[str]:
        """Of COPY in words, of ENTRYPOINT and CMD in JSON: a shell in front of the process would keep its signals."""
        return shlex.split(self.rest) if self.word == "COPY" else list(json.loads(self.rest))


@dataclass
class Stage:
    """What is done on top of `base`, an image or a stage before."""

    base: str
    name: str
    steps: list[Step] = field(default_factory=list)

    def last(self, word: str) -> Step:
        """The one that counts of those that replace each other."""
        return [step for step in self.steps if step.word == word][-1]


def read(text: str, arguments: Mapping[str, str] | None = None) -> list[Stage]:
    """Its stages, in their order. `arguments` are those of the build, over the defaults of ARG."""
    stages: list[Stage] = []
    known: dict[str, str] = {}
    for line in _lines(text):
        word, _, rest = line.partition(" ")
        if word == "ARG":
            name, _, default = rest.partition("=")
            known[name] = (arguments or {}).get(name, default)
        elif word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(_filled(base, known), name))
        else:
            assert word in _KNOWN, f"{word}: what it does is not rehearsed"
            # A shell has variables of its own.
            filled = rest if word == "RUN" else _filled(rest, known)
            stages[-1].steps.append(Step(word, filled.strip()))
    return stages


def _filled(text: str, known: Mapping[str, str]) -> str:
    return re.sub(r"\$(\w+)", lambda found: known[found[1]], text)


def _lines(text: str) -> list[str]:
    bare = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    joined = re.sub(r"\\\n\s*", "", bare)
    return [line.strip() for line in joined.splitlines() if line.strip()]
