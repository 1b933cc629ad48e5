"""What entries hold, sealed for their place and opened again.

No byte of a stored value is looked at, let alone unpickled, before its seal was verified for exactly this call,
position, kind and key, and with exactly the rest of its entry.
"""

from __future__ import annotations

from framehold_core.ids import CallId
from framehold_core.journal import Draft, Entry, Kind
from framehold_store.seal import Sealer
from framehold_store.values import Packed, Values


class Payloads:
    """Seals and opens the values of journal entries. `values` says what may be kept, and how."""

    def __init__(self, sealer: Sealer, values: Values) -> None:
        self.sealer, self.values = sealer, values

    def sealed(self, call: CallId, n: int, draft: Draft) -> bytes:
        """A draft's value, sealed for position `n` of `call`; nothing where there is none."""
        if _bare(draft):
            return b""
        return self.sealer.seal("journal", draft.value, call=call, n=n, kind=draft.kind.value, key=_place(draft))

    def packed(self, call: CallId, item: Entry) -> Packed:
        """What an effect came to, from its entry, once it was seen that it can be unpacked here.

        Raises:
            SealError: as `opened`. ValueUnreadable: it was sealed by this fleet, and can't be made into an object.
        """
        packed = Packed(item.codec, self.opened(call, item))
        self.values.unpack(packed.codec, packed.data)
        return packed

    def opened(self, call: CallId, item: Entry) -> bytes:
        """An entry's value. Raises SealError: it was not sealed by this fleet for this place."""
        if _bare(item):
            return b""
        return self.sealer.open("journal", item.value, call=call, n=item.n, kind=item.kind.value, key=_place(item))


def _bare(item: Draft | Entry) -> bool:
    """Whether it has no value to seal. Answers, results and values always have one: without it they were altered."""
    return not item.value and item.kind in (Kind.ASK, Kind.INTENT)


def _place(item: Draft | Entry) -> str:
    """Everything that is plain in an entry, bound to its value: read by another codec, or in another round, a value is
    not what was recorded. Each text but the last has its length before it."""
    lengths = f"{len(item.codec)}:{item.codec}{len(item.fp)}:{item.fp}"
    return f"{item.round}{item.lane.value}{lengths}{item.key}"
