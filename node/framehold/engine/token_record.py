"""Strategy replay: the record of a call travels in its token, and no store has it. It is read from the token when a
retry arrives, and written into the next token when the call asks again.

Between the two the record obeys the same scripts as a record in a store, so core treats both strategies alike. Only the
promises differ (docs/protocol.md, rule 14): a client may send an older token again and branch the history.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Collection

from framehold_core import journal, record, writes
from framehold_core.clock import Clock
from framehold_core.errors import JournalError, SealError
from framehold_core.ids import Boot, CallId, NodeId
from framehold_core.lease import NodeRecord
from framehold_core.requests import Head, Record, RecordState, Reply, Request, Stored
from framehold_store.base import Done
from framehold_store.seal import Sealer

from ..frame.entropy import SeededEntropy
from . import token_claims
from .token_claims import Carried

_SEED = 16


class TokenRecord:
    """The record of one call while a request for it is handled, in place of a store: `submit`, `run` and `nodes` are as
    those of `Store`."""

    def __init__(self, clock: Clock, stored: Stored | None = None) -> None:
        self.stored, self.clock = stored, clock

    def submit(self, request: Request, done: Done) -> None:
        """Apply one request and call `done` at once."""
        done(self._apply(request))

    async def run(self, request: Request) -> Reply:
        """Apply one request and return the reply."""
        return self._apply(request)

    async def nodes(self, named: Collection[NodeId] | None = None) -> tuple[NodeRecord, ...]:
        """No leases: no other node can hold the call."""
        return ()

    def _apply(self, request: Request) -> Reply:
        self.stored, reply = record.apply(self.stored, request, self.clock.time())
        return reply


def begun(clock: Clock) -> SeededEntropy:
    """The source of recorded values for a new call: a random seed and the present time."""
    return SeededEntropy(clock.fresh(_SEED), clock.time(), clock.fresh)


def arrived(carried: Carried, sealer: Sealer, clock: Clock) -> tuple[TokenRecord, SeededEntropy, str]:
    """The call that a token carries: its record, the source of its recorded values, and the history mark of its last
    round.

    Raises:
        JournalError: an entry can't be read, or the entries don't end with the token's round.
        SealError: the seed was not sealed by this fleet for this call.
    """
    entries = journal.decode_all(carried.entries)
    asked = writes.round_of(entries)
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
        incarnation="",
        epoch=carried.epoch,
        round=carried.round,
        position=len(entries),
        history=journal.chain(journal.GENESIS, carried.entries),
        attempts=0,
        created=clock.time(),
        expires=math.inf,
        # The last round waits for its answers: a journal that has some of it is not believed.
        answers={round_: item for round_, item in writes.answers_of(entries).items() if round_ < carried.round},
        intents=dict(writes.once_intents(entries)),
    )
    mark = journal.round_history(carried.entries, entries, carried.round)
    entropy = SeededEntropy(seed, carried.instant, clock.fresh)
    return TokenRecord(clock, Stored(found, carried.entries)), entropy, mark


def state(
    call: CallId, passing: TokenRecord, seeded: SeededEntropy, sealer: Sealer, *, code: str, lifetime: float
) -> str:
    """The plaintext of a token for a call that asks. `code` is the digest of the handler, `lifetime` for how many
    seconds the token is valid, 0 for the default."""
    stored = passing.stored
    assert stored is not None, "a call that asks has a record"
    seed = sealer.seal("token", seeded.seed, call=call, n=0, kind="seed", key="")
    found = stored.record
    now, text = passing.clock.time(), base64.b64encode(seed).decode("ascii")
    return token_claims.carry(Carried(call, found.round, found.epoch, code, text, now, lifetime, stored.journal))
