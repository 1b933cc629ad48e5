"""Two releases of the handler's code, as their authors would deploy them, with the bytes that the store keeps of each.

The handler of a schedule carries out a program. What is kept here stands for its code: a call that began with one
release goes on with that release, at a node of the other one, too.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from framehold.code.authors import Authors
from framehold.code.codes import Codes, Registered

TOOL = "scripted"


def _first() -> str:
    return "first"


def _second() -> str:
    return "second"


class Release(NamedTuple):
    """A release: its name, the digest of its code, and the bytes of that."""

    name: str
    digest: str
    written: bytes


@cache
def releases() -> tuple[Release, Release]:
    """Both releases."""
    codes = Codes(Authors(["tests"]))
    found = []
    for function in (_first, _second):
        registered = Registered(function, {}, "tools/call", TOOL, True)
        found.append(Release(function(), codes.of(registered).digest, codes.write(registered)))
    first, second = found
    return first, second
