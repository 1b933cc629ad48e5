"""What a handler learns beside its clients' answers: results of effects (`once`), and values that would differ a second
time (`now`, `uuid4`, `random`). A replay gives the recorded ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from framehold_core import journal
from framehold_core.ids import CallId
from framehold_core.journal import Draft, Kind

from .calling import inside
from .chance import Chance
from .onces import Host, Onces, Scribe
from .past import Past

Draw = Callable[[Chance, str], Any]
"""Makes a value from a source and the key that it is recorded under ("" for nowhere)."""


class Learned:
    """What one frame has learned."""

    def __init__(self, frame: Host, scribe: Scribe) -> None:
        self._frame, self._scribe = frame, scribe
        self.past = Past(scribe.call_id)
        self.onces = Onces(frame, scribe, self.past)
        self._counts: Counter[str] = Counter()
        self._values: dict[str, Any] = {}

    @property
    def origin(self) -> CallId:
        """The call as the outside knows it: of all rounds of a handler that parks by hand, the first."""
        return self.past.call

    async def once(self, key: str, fn: Callable[..., Any], args: Any, kwargs: Any, idempotent: bool) -> Any:
        """See `Onces.once`."""
        return await self.onces.once(key, fn, args, kwargs, idempotent)

    def record(self) -> tuple[bytes, ...]:
        """What was learned, as it goes into a state; empty where nothing was."""
        return self.past.record(self._scribe.payloads)

    def value(self, kind: str, name: str | None, draw: Draw) -> Any:
        """A value that replay must repeat, as JSON: recorded, or drawn under its key."""
        if inside.get() is not None:
            # The effect's result is recorded; what it drew on the way is nobody's business.
            return draw(self._scribe.chance, "")
        if name is None:
            self._counts[kind] += 1
        key = f"{kind}-{self._counts[kind]}" if name is None else f"{kind}:{name}"
        if key not in self._values:
            self._values[key] = self._value(kind, key, draw)
        return self._values[key]

    def _value(self, kind: str, key: str, draw: Draw) -> Any:
        payloads, past = self._scribe.payloads, self.past.entries.get((Kind.VALUE, key))
        if past is not None:
            return journal.parse(payloads.opened(self.past.call, past))
        return self._frame.at_home(lambda: self._drawn(kind, key, draw))

    def _drawn(self, kind: str, key: str, draw: Draw) -> Any:
        """A value of this call, on the handler's loop: what is recorded, else drawn and recorded."""
        payloads, lane = self._scribe.payloads, self._frame.lane()
        if self._frame.replay is not None:
            found = self._frame.replayed(lambda replay: replay.cursor.value(key, kind, lane))
            if found is not None:
                data = self._frame.replayed(lambda _: payloads.opened(self._scribe.call_id, found))
                # Recorded here, it is still news to the state of a handler that parks by hand in the end.
                self.past.fresh.append(Draft(Kind.VALUE, key, found.round, lane, kind, "json", data))
                return journal.parse(data)
        if self._frame.dead:
            raise asyncio.CancelledError(f"this call's frame is gone: {kind}() comes too late")
        self._scribe.admit(f"framehold.{kind}()")
        value = draw(self._scribe.chance, key)
        draft = Draft(Kind.VALUE, key, self._frame.round, lane, kind, "json", journal.canonical(value))
        self.past.fresh.append(draft)
        self._scribe.noted((draft,))
        return value
