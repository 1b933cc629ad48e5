"""Rebuilds a frame: its handler is entered again and gets the recorded answers, until it stands where its journal ends.

Core's cursor decides which entry may be delivered when (docs/protocol.md, rule 12). Here the values of these entries
are opened. When every recorded question was asked again and answered, `cursor.live` is true and the frame goes live.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from framehold_core.errors import DivergenceError, JournalError, SealError, ValueUnreadable
from framehold_core.events import Answer
from framehold_core.journal import Entry, EntryKind, EntryLane, parse
from framehold_core.replay import CHANGED, DEPENDS, LIKELY, Cursor

from .asks import Ask

MAX_TEXT_CHARACTERS = 80
"""Characters of a question's text that its entry keeps, for the error message of a divergence."""
GIVEN = "given"
"""The key of the entry with the input that came beside the arguments when the handler was first entered."""
REPLAY_ERRORS = (DivergenceError, SealError, ValueUnreadable, JournalError)
"""The errors that end a replay: the handler diverges, or a recorded entry can't be read."""


class Rebuild:
    """The journal of one frame while it is replayed. `opened` returns an entry's value (bytes) or raises SealError.
    `recorded` is the digest of the handler's code when the call began, `present` the digest of its code now; empty if
    not known."""

    def __init__(
        self, entries: Sequence[Entry], opened: Callable[[Entry], bytes], recorded: str = "", present: str = ""
    ) -> None:
        known = bool(recorded and present)
        likely = LIKELY if not known else DEPENDS if recorded == present else CHANGED
        self.cursor = Cursor(entries, partial(_entry_text, opened), likely)
        self.shown_questions = tuple(item for item in entries if item.kind is EntryKind.ASK)
        """The questions that the client was shown."""
        self.wires: dict[str, dict[str, Any]] = {}
        """The questions that were asked again: key to request, as the client gets it."""
        self._entries, self._opened = entries, opened

    def given(self) -> bytes:
        """The input that came with the first request beside its arguments, as JSON bytes; empty if there was none.
        Raises SealError."""
        item = next((item for item in self._entries if (item.kind, item.key) == (EntryKind.VALUE, GIVEN)), None)
        if item is None:
            return b""
        self.cursor.value(GIVEN, GIVEN, EntryLane.SIDE)
        return self._opened(item)

    def answer(self, item: Entry, read: Callable[[Any], Any]) -> Any:
        """A recorded answer, parsed by `read`, the parser of the question that is asked now.

        Raises:
            SealError: the answer was not sealed by this fleet for this place.
            DivergenceError: `read` does not accept the answer, so the handler asks for something else than it did.
        """
        try:
            return read(parse(self._opened(item)))
        except ValueError as error:
            raise DivergenceError(
                f"recorded is an answer to {item.key!r} (entry {item.n}) that does not fit what is asked now: {error}; "
                "it was not delivered; likely the handler's code changed since then"
            ) from None

    def deliver_next(self, pending: Mapping[str, Ask], give: Callable[[str], None]) -> bool:
        """Deliver what was heard next: the answers of a round to the pending questions, or the result of the effect
        under a key, which `give` hands out. Returns whether there was anything.

        Raises:
            SealError, DivergenceError: an answer can't be read, see `answer`; none was delivered.
        """
        found = self.cursor.ready()
        if found and found[0].kind is not EntryKind.ANSWER:
            give(found[0].key)
            return True
        asks = ((item, pending.get(item.key)) for item in found)
        # All answers are parsed before the first is delivered: if one can't be read, the handler gets none.
        parsed = [
            (ask.answer, self.answer(item, ask.question.parse))
            for item, ask in asks
            if ask is not None and not ask.answer.done()
        ]
        for answer, value in parsed:
            answer.set_result(value)
        return bool(found)

    def leftover_answers(self) -> tuple[Answer, ...]:
        """The answers of a recorded round that was answered only in part. Only valid once `cursor.live` is true.
        Raises SealError."""
        return tuple(Answer(item.key, item.fp, self._opened(item)) for item in self.cursor.rest())


def _entry_text(opened: Callable[[Entry], bytes], item: Entry) -> str:
    """The text of a question or an intent, for error messages; empty for other entries. A function and no method: a
    cursor that holds a method of its `Rebuild` would make a cycle."""
    try:
        return opened(item).decode("utf-8", "replace") if item.kind in (EntryKind.ASK, EntryKind.INTENT) else ""
    except SealError:
        return ""
