"""A frame that is rebuilt: its handler is entered again and hears what is recorded, until it stands where it stood.

The cursor decides what may be heard when (PROTOCOL rule 12); here what it gives is opened. Once everything recorded was
asked for again and heard, `cursor.live` is true and the frame goes on like any other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol

from framehold_core.errors import DivergenceError, JournalError, SealError, ValueUnreadable
from framehold_core.events import Answer
from framehold_core.journal import Entry, Kind, Lane, digest, parse
from framehold_core.replay import CHANGED, DEPENDS, LIKELY, Cursor

SHOWN = 80
"""Characters of a question that its entry keeps, so that a divergence can be told in words."""
GIVEN = "given"
"""The key of the entry that holds what a handler was given beside its arguments when it was entered first."""
STRAYED = (DivergenceError, SealError, ValueUnreadable, JournalError)
"""What ends a replay: the handler goes another way, or what is recorded can't be read."""


class Asked(Protocol):
    """A question, as far as its answer is read."""

    @property
    def parse(self) -> Callable[[Any], Any]: ...


class Waiting(Protocol):
    """A question that was asked again and waits."""

    @property
    def question(self) -> Asked: ...
    @property
    def answer(self) -> asyncio.Future[Any]: ...


class Rebuild:
    """The journal of one frame while it is replayed. `opened` gives an entry's value (bytes) or raises SealError;
    `recorded` and `present` are the digests of the handler's code then and now, empty where nobody knows."""

    def __init__(
        self, entries: Sequence[Entry], opened: Callable[[Entry], bytes], recorded: str = "", present: str = ""
    ) -> None:
        known = bool(recorded and present)
        likely = LIKELY if not known else DEPENDS if recorded == present else CHANGED
        self.cursor = Cursor(entries, partial(_words, opened), likely)
        self.shown = tuple(item for item in entries if item.kind is Kind.ASK)
        """The questions that the client was shown."""
        self.wires: dict[str, dict[str, Any]] = {}
        """The questions that were asked again, as the client gets them."""
        self._entries, self._opened = entries, opened

    def given(self) -> bytes:
        """What came with the first request beside its arguments, as JSON; empty where nothing did. Raises SealError."""
        item = next((item for item in self._entries if (item.kind, item.key) == (Kind.VALUE, GIVEN)), None)
        if item is None:
            return b""
        self.cursor.value(GIVEN, GIVEN, Lane.SIDE)
        return self._opened(item)

    def answer(self, item: Entry, read: Callable[[Any], Any]) -> Any:
        """A recorded answer, as its ask reads it.

        Raises:
            SealError: it was not sealed here. DivergenceError: the handler reads answers otherwise than it did.
        """
        try:
            return read(parse(self._opened(item)))
        except ValueError as error:
            raise DivergenceError(
                f"recorded is an answer to {item.key!r} (entry {item.n}) that does not fit what is asked now: {error}; "
                "it was not delivered; likely the handler's code changed since then"
            ) from None

    def hear(self, pending: Mapping[str, Waiting]) -> bool:
        """Give the next recorded round to the questions that wait for it; whether there was one. Raises as `answer`."""
        answers = self.cursor.ready()
        asks = ((item, pending.get(item.key)) for item in answers)
        # All are read before any is given: where one can't be read the handler hears none.
        heard = [
            (ask.answer, self.answer(item, ask.question.parse))
            for item, ask in asks
            if ask is not None and not ask.answer.done()
        ]
        for answer, value in heard:
            answer.set_result(value)
        return bool(answers)

    def rest(self) -> tuple[Answer, ...]:
        """What rounds that were answered in part have brought, once `cursor.live`. Raises SealError."""
        found = ((item.key, self._opened(item)) for item in self.cursor.rest())
        return tuple(Answer(key, digest(data), data) for key, data in found)


def _words(opened: Callable[[Entry], bytes], item: Entry) -> str:
    """What an entry was, for people. No method: a cursor that held one would be a cycle."""
    try:
        return opened(item).decode("utf-8", "replace") if item.kind in (Kind.ASK, Kind.INTENT) else ""
    except SealError:
        return ""
