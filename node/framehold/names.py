"""The names of tools and prompts that metrics are told by.

The law: bounded, whatever clients send. A name is one that the server advertises, or, where nobody can say what it
advertises (a low-level server), one whose handler has asked. All else is `other`: what is too long for a label, what
UTF-8 can't carry, and whatever comes when there are names enough.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator

from framehold_router.api.fields import LONGEST

from . import clock

OTHER = "other"
READING = "resources/read"
"""What all resources are told by: their addresses are anybody's."""
MOST = 200
"""Names beside `other`: each is some fifty series, on each node."""
ROOM = 32 * 1024
"""Bytes that they take together as JSON: routers read no longer answers than twice that."""
FRESH = 1.0
"""Seconds for which what the server advertises is not asked again: clients may send any number of unknown names."""


class Names:
    """Which names there are. `advertised` gives those of the server's tools and prompts, None where it can't say."""

    def __init__(self, advertised: Callable[[], Iterable[str] | None]) -> None:
        self._advertised = advertised
        self._known: dict[str, None] = {}
        self._open, self._room = False, ROOM
        self._asked = -math.inf

    def __iter__(self) -> Iterator[str]:
        self._ask()
        return iter(self._known)

    def known(self, name: str, asks: bool) -> bool:
        """Whether this name is one to tell by; `asks` is whether its handler has just asked."""
        if name not in self._known:
            self._ask()
            if self._open and asks:
                self._learn(name)
        return name in self._known

    def _ask(self) -> None:
        if clock.now() < self._asked + FRESH:
            return
        self._asked = clock.now()
        advertised = self._advertised()
        self._open = advertised is None
        for name in (READING, *(advertised or ())):
            self._learn(name)

    def _learn(self, name: str) -> None:
        if name in self._known or len(self._known) > MOST or len(name) > LONGEST or not _carried(name):
            return
        takes = len(json.dumps(name)) + 1
        if takes <= self._room:
            self._known[name] = None
            self._room -= takes


def _carried(name: str) -> bool:
    """Whether it can be written in UTF-8: half of a surrogate pair can't."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
