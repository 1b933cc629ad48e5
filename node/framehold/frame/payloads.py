"""Seals the values of journal entries for their place, and opens them.

No byte of a stored value is parsed or unpickled before its seal is verified for exactly this call, position, kind and
key, and for the other fields of its entry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from framehold_core.errors import JournalError, SealError
from framehold_core.ids import CallId
from framehold_core.journal import Draft, Entry
from framehold_store.named import Known
from framehold_store.seal import Sealer
from framehold_store.values import PackedResult, Values


class Payloads:
    """Seals and opens the values of journal entries. `values` says which objects may be stored, and encodes them."""

    def __init__(self, sealer: Sealer, values: Values) -> None:
        self.sealer, self.values = sealer, values

    def knowing(self, known: Known) -> Payloads:
        """Payloads whose values are read with these functions, classes and objects, by their names."""
        return Payloads(self.sealer, replace(self.values, known=known))

    def sealed(self, call: CallId, n: int, draft: Draft) -> bytes:
        """A draft's value, sealed for position `n` of `call`. An empty one is sealed too: nobody without a key can make
        an entry up."""
        return self.sealer.seal("journal", draft.value, call=call, n=n, kind=draft.kind, key=_bound_key(draft))

    def verify(self, call: CallId, entries: Iterable[Entry]) -> None:
        """Verify the seal of each entry of a journal.

        Raises:
            JournalError: an entry was not sealed by this fleet for this place.
        """
        for item in entries:
            try:
                self.opened(call, item)
            except SealError as error:
                raise JournalError(str(error)) from None

    def packed(self, call: CallId, item: Entry) -> PackedResult:
        """The encoded outcome of an effect, from its entry. It is decoded once here to check that it can be.

        Raises:
            SealError: the value was not sealed by this fleet for this place.
            ValueUnreadable: the value was sealed by this fleet, but can't be decoded into an object here.
        """
        packed = PackedResult(item.codec, self.opened(call, item))
        self.values.unpack(packed.codec, packed.data)
        return packed

    def opened(self, call: CallId, item: Entry) -> bytes:
        """An entry's value, opened. Raises SealError: the value was not sealed by this fleet for this place."""
        return self.sealer.open("journal", item.value, call=call, n=item.n, kind=item.kind, key=_bound_key(item))


def _bound_key(item: Draft | Entry) -> str:
    """The plain fields of an entry, which the seal binds to its value. With another codec, or in another round, the
    same bytes would be another value. The length of each text but the last stands before it."""
    lengths = f"{len(item.codec)}:{item.codec}{len(item.fp)}:{item.fp}"
    return f"{item.round}{item.lane}{lengths}{item.key}"
