"""Strategy replay: the record of a call that no store holds. It is made from the call's token when a retry arrives, and
goes into the next token when a question leaves.

Between the two it obeys the same scripts as any record, so a call is the same call under both strategies. What differs
is what is promised (PROTOCOL rule 14): a client may send an older token again and branch the history.
"""

from __future__ import annotations

import base64
import math
import os
import time

from framehold_core import journal, record, writes
from framehold_core.errors import JournalError, SealError
from framehold_core.ids import Boot, CallId
from framehold_core.journal import Kind
from framehold_core.lease import NodeRecord
from framehold_core.requests import Head, Record, RecordState, Reply, Request, Stored
from framehold_store.base import Done
from framehold_store.seal import Sealer

from . import clock, tokens
from .chance import Seeded
from .tokens import Carried

_SEED = 16


class Passing:
    """One call's record while a request for it is here. Fits `slots.Records`."""

    def __init__(self, stored: Stored | None = None) -> None:
        self.stored = stored

    def submit(self, request: Request, done: Done) -> None:
        """Apply one request, at once."""
        done(self._apply(request))

    async def run(self, request: Request) -> Reply:
        """Apply one request."""
        return self._apply(request)

    async def nodes(self) -> tuple[NodeRecord, ...]:
        """None: nobody else can have the call."""
        return ()

    def _apply(self, request: Request) -> Reply:
        self.stored, reply = record.apply(self.stored, request, clock.now())
        return reply


def begun() -> Seeded:
    """What a new call draws its values from."""
    return Seeded(os.urandom(_SEED), time.time())


def arrived(carried: Carried, sealer: Sealer) -> tuple[Passing, Seeded, str]:
    """A call as its token carries it: its record, what it draws its values from, and the mark of its last round.

    Raises:
        JournalError: an entry can't be read. SealError: the seed was not sealed by this fleet for this call.
    """
    entries = journal.decode_all(carried.entries)
    asked = max((item.round for item in entries if item.kind is Kind.ASK), default=0)
    if asked != carried.round:
        raise JournalError(
            f"the token answers round {carried.round} and its journal asked {asked} rounds; the call was not continued"
        )
    try:
        seed = base64.b64decode(carried.seed, validate=True)
    except ValueError:
        raise SealError("the token's seed is no base64; it was not opened; the call was not continued") from None
    seed = sealer.open("token", seed, call=carried.call, n=0, kind="seed", key="")
    head = Head(Boot(""), True, "", carried.code, "", "", "", "", "replay")
    found = Record(
        state=RecordState.RELEASED,
        head=head,
        owner="",
        inc="",
        epoch=carried.epoch,
        round=carried.round,
        n=len(entries),
        jh=journal.chain(journal.GENESIS, carried.entries),
        attempts=0,
        created=clock.now(),
        expires=math.inf,
        intents=dict(writes.once_intents(entries)),
    )
    mark = journal.mark(carried.entries, entries, carried.round)
    return Passing(Stored(found, carried.entries)), Seeded(seed, carried.instant), mark


def state(call: CallId, passing: Passing, seeded: Seeded, sealer: Sealer, *, code: str, lifetime: float) -> str:
    """The plaintext of a token that carries a call which has just asked."""
    stored = passing.stored
    assert stored is not None, "a call that asks has a record"
    seed = sealer.seal("token", seeded.seed, call=call, n=0, kind="seed", key="")
    found = stored.record
    now = time.time()
    text = base64.b64encode(seed).decode("ascii")
    return tokens.carry(Carried(call, found.round, found.epoch, code, text, now, lifetime, stored.journal))
