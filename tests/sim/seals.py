"""What the nodes have sealed, and what a reader of the store checks of it (docs/protocol.md, rule 29).

A seal can't be forged here: a value is good if some node has written this very value for this very place. Whoever
writes the store without the keys can move what was sealed, and bring back what was sealed earlier.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from framehold_core import journal
from framehold_core.errors import JournalError
from framehold_core.ids import Boot, NodeId
from framehold_core.journal import Entry
from framehold_core.requests import Commit, Finish, Head, Intent, Request, Result, Stored
from framehold_core.value import astuple, replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from framehold_core.lease import NodeRecord

_NOBODY = Boot("")
_NOT_OURS = "its {} was not sealed for this call; it was not continued"


def covered(call: str, head: Head) -> tuple[object, ...]:
    """What the seal of a record's head is over: all of it but the process, which changes with each claim."""
    return (call, *astuple(replace(head, boot=_NOBODY, seal="")))


def sealed(call: str, head: Head) -> Head:
    """A head under the seal that only a node can put on it."""
    return replace(head, seal=journal.digest(journal.canonical(covered(call, head))))


class Seals:
    """The seals of one world."""

    def __init__(self) -> None:
        self._entries: set[tuple[str, bytes]] = set()
        self._outcomes: set[tuple[str, bytes]] = set()
        self._leases: set[NodeRecord] = set()

    def wrote(self, request: Request) -> None:
        """A node sends a write: what it says is sealed for its call. The entries of a heal are sealed already."""
        if isinstance(request, Commit | Intent | Result):
            self._entries.update((request.call, raw) for raw in request.batch.entries)
        if isinstance(request, Finish):
            self._outcomes.add((request.call, request.outcome))

    def renewed(self, item: NodeRecord) -> None:
        """A node writes its lease: it is sealed as a whole, with its beat and its end."""
        self._leases.add(item)

    def wrote_entry(self, call: str, item: Entry) -> bool:
        """Whether a node has written this entry for this call, whatever a reader finds."""
        return (call, journal.encode(item)) in self._entries

    # ---- what a reader checks

    def whole(self, call: str, stored: Stored | None) -> Stored | None:
        """What was read of a call. None where the head of the record was not sealed for this call: it counts as
        missing. The core compares the seal with that of each token."""
        return stored if stored is not None and self.is_head(call, stored.record.head) else None

    def check(self, call: str, stored: Stored) -> None:
        """Check a call that was claimed.

        Raises:
            JournalError: its head, or an entry, was not sealed for this call.
        """
        if self.whole(call, stored) is None:
            raise JournalError(_NOT_OURS.format("head"))
        self.check_entries(call, stored)

    def check_entries(self, call: str, stored: Stored) -> None:
        """Check the journal of a call.

        Raises:
            JournalError: an entry was not sealed for this call.
        """
        for raw in stored.journal:
            if not self.is_entry(call, raw):
                raise JournalError(_NOT_OURS.format("journal"))

    def is_head(self, call: str, head: Head) -> bool:
        """Whether this head was sealed for this call."""
        return head.seal == sealed(call, head).seal

    def is_entry(self, call: str, raw: bytes) -> bool:
        """Whether this entry was sealed for this call. It names its position."""
        return (call, raw) in self._entries

    def is_outcome(self, call: str, outcome: bytes) -> bool:
        """Whether this outcome was sealed for this call."""
        return (call, outcome) in self._outcomes

    def is_lease(self, item: NodeRecord) -> bool:
        """Whether a node has written this very lease."""
        return item in self._leases

    def holds(self, name: str, item: NodeRecord) -> bool:
        """Whether the node of this name has written the lease that stands under it."""
        return item.node == name and self.is_lease(item)

    def is_current(self, name: str, item: NodeRecord, now: float) -> bool:
        """Whether the lease under this name is believed: its seal holds, and its end has not come. `now` is on the
        store's clock."""
        return self.holds(name, item) and item.expires > now

    def members(self, leases: Mapping[NodeId, NodeRecord], now: float) -> dict[NodeId, NodeRecord]:
        """The leases that are believed, of those that were read."""
        return {name: item for name, item in leases.items() if self.is_current(name, item, now)}
