"""The entries that travel in the state of a handler which returns its questions."""

from __future__ import annotations

from framehold.frame.payloads import Payloads
from framehold.frame.state_journal import StateJournal
from framehold_core.ids import CallId
from framehold_core.journal import Draft, EntryKind, EntryLane
from framehold_store.seal import Sealer
from framehold_store.values import Values
from tests.kit.nodes import KEY

PAYLOADS = Payloads(Sealer((KEY.encode(),), "test"), Values(pickle=False, limit=1 << 10))
FIRST, SECOND, THIRD = (CallId(digit * 32) for digit in "abc")


def draft(key: str, round_: int) -> Draft:
    return Draft(EntryKind.VALUE, key, round_, EntryLane.MAIN, "fp", "json", key.encode())


def test_each_round_adds_behind_what_the_rounds_before_it_recorded() -> None:
    """Each entry has a position of its own, and is sealed for it and for the first call of all rounds."""
    journal = StateJournal(FIRST)
    journal.added = [draft("one", 0), draft("two", 0)]
    raw = journal.dump(PAYLOADS)
    for call, key in ((SECOND, "three"), (THIRD, "four")):
        journal = StateJournal(call)
        journal.load(FIRST, raw)
        journal.added = [draft(key, 1)]
        raw = journal.dump(PAYLOADS)
    journal = StateJournal(SECOND)
    journal.load(FIRST, raw)
    assert [(item.n, item.key) for item in journal.entries.values()] == [
        (0, "one"),
        (1, "two"),
        (2, "three"),
        (3, "four"),
    ]
    opened = [PAYLOADS.opened(journal.call, item) for item in journal.entries.values()]
    assert opened == [b"one", b"two", b"three", b"four"]
