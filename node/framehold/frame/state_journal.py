"""The entries that travel in the state of a handler which returns its questions.

Such a handler is entered anew in each round, each time as a call of its own. The entries of all its rounds (effects and
values) travel in the state token, sealed for the first of these calls.
"""

from __future__ import annotations

from framehold_core import journal
from framehold_core.ids import CallId
from framehold_core.journal import Draft, Entry, EntryKind

from .payloads import Payloads


class StateJournal:
    """The entries of earlier rounds, by kind and key. They are sealed for `call`. `added` has the entries of this
    round."""

    def __init__(self, call: CallId) -> None:
        self.call = call
        self.entries: dict[tuple[EntryKind, str], Entry] = {}
        self.added: list[Draft] = []
        self._raw: tuple[bytes, ...] = ()

    def load(self, call: CallId, raw: tuple[bytes, ...]) -> None:
        """Read the encoded entries of earlier rounds, sealed for `call`. Raises JournalError: an entry can't be
        decoded."""
        entries = journal.decode_all(raw)
        self.call, self._raw = call, raw
        self.entries = {(item.kind, item.key): item for item in entries}

    def dump(self, payloads: Payloads) -> tuple[bytes, ...]:
        """All entries, encoded, for `load` in the next round; empty if there are none."""
        added = (
            journal.encode(journal.entry(n, draft, payloads.sealed(self.call, n, draft)))
            for n, draft in enumerate(self.added, len(self._raw))
        )
        return (*self._raw, *added)
