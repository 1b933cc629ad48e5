"""The names of tools and prompts that are labels of metrics.

The law: the number of labels is bounded, whatever clients send. A name becomes a label if the server advertises it. A
low-level server can't list its names; there a name becomes a label when its handler has asked a question. All other
names count as `other`: also names that are too long, that UTF-8 can't encode, or that come after the limit.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator

from framehold_fleet.models.fields import MAX_TEXT_CHARACTERS
from framehold_store import system_clock

OTHER = "other"
READING = "resources/read"
"""The label of all resources: clients choose the URI, so a URI is no label."""
MAX_NAMES = 200
"""How many names are labels beside `other`. Each makes about fifty series on each node."""
MAX_JSON_BYTES = 32 * 1024
"""Bytes of all names together as JSON: they are part of what routers read of a node."""
ASK_INTERVAL = 1.0
"""Seconds between two requests for the advertised names: clients may send any number of unknown names."""


class ToolLabels:
    """The names that are labels. `advertised` returns the names of the server's tools and prompts, None if the server
    can't list them."""

    def __init__(self, advertised: Callable[[], Iterable[str] | None]) -> None:
        self._advertised = advertised
        self._known: dict[str, None] = {}
        self._accepts_any, self._bytes_left = False, MAX_JSON_BYTES
        self._asked = -math.inf
        self._digest: str | None = None

    def __iter__(self) -> Iterator[str]:
        self._ask()
        return iter(self._known)

    @property
    def digest(self) -> str | None:
        """Tells the names that the server has now from others; None if it can't list them."""
        self._ask()
        return self._digest

    def known(self, name: str, asks: bool) -> bool:
        """Whether this name is a label. `asks` says whether its handler has just asked a question."""
        if name not in self._known:
            self._ask()
            if self._accepts_any and asks:
                self._add(name)
        return name in self._known

    def _ask(self) -> None:
        if system_clock.now() < self._asked + ASK_INTERVAL:
            return
        self._asked = system_clock.now()
        advertised = self._advertised()
        self._accepts_any = advertised is None
        names = (READING, *(advertised or ()))
        for name in names:
            self._add(name)
        # A name that is no longer advertised stays a label: its counts are shown on. It is no name of the server.
        digest = hashlib.sha256(json.dumps(sorted(set(names))).encode()).hexdigest()[:16]
        self._digest = None if self._accepts_any else digest

    def _add(self, name: str) -> None:
        if name in self._known or len(self._known) > MAX_NAMES or len(name) > MAX_TEXT_CHARACTERS or not _is_utf8(name):
            return
        takes = len(json.dumps(name)) + 1
        if takes <= self._bytes_left:
            self._known[name] = None
            self._bytes_left -= takes


def _is_utf8(name: str) -> bool:
    """Whether a name can be encoded in UTF-8: half of a surrogate pair can't."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
