"""What a handler that parks by hand has learned in earlier rounds, and learns in this one.

Such a handler is entered anew each round, each time as a call of its own. What it learned comes along in its state,
sealed for the first of these calls.
"""

from __future__ import annotations

from framehold_core import journal
from framehold_core.ids import CallId
from framehold_core.journal import Draft, Entry, Kind

from .payloads import Payloads


class Past:
    """Entries by kind and key. `call` is the one that they are sealed for, `fresh` what this round adds."""

    def __init__(self, call: CallId) -> None:
        self.call = call
        self.entries: dict[tuple[Kind, str], Entry] = {}
        self.fresh: list[Draft] = []
        self._raw: tuple[bytes, ...] = ()

    def recall(self, call: CallId, raw: tuple[bytes, ...]) -> None:
        """Take up what earlier rounds learned, sealed for `call`. Raises JournalError: an entry can't be read."""
        entries = journal.decode_all(raw)
        self.call, self._raw = call, raw
        self.entries = {(item.kind, item.key): item for item in entries}

    def record(self, payloads: Payloads) -> tuple[bytes, ...]:
        """All of it, for the next round's `recall`; empty where there is nothing."""
        fresh = (
            journal.encode(journal.entry(n, draft, payloads.sealed(self.call, n, draft)))
            for n, draft in enumerate(self.fresh, len(self._raw))
        )
        return (*self._raw, *fresh)
