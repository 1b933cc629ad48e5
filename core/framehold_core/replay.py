"""The replay cursor: what a handler that is entered again gets to hear, and when (PROTOCOL rule 12).

Recorded answers are delivered round by round as they were, not as fast as they are asked for: a round's answers leave
only when every ask of that round was asked again. What the handler's own task did is also checked strictly in order;
other tasks of the handler may come in any order. Asking for something else than was recorded is divergence, by name.

A driver feeds `ask`, `once` and `value` as the handler calls them, takes what `ready` gives whenever the handler has
settled, and says `finish` when the handler ends. While `live` is false nothing may be asked of the client: what the
handler asks beyond the record waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from .errors import DivergenceError
from .journal import Entry, Kind, Lane

_LIKELY = "its code changed, or it depends on something that is not recorded"


class Once(Enum):
    """What the journal knows of a `once` that has no result."""

    LIVE = "never intended: run it"
    IN_DOUBT = "intended, no result: it may have run, or may yet run"


class Cursor:
    """A journal being replayed. Mutable; of one frame."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._asks: dict[int, dict[str, Entry]] = {}
        self._answers: dict[int, dict[str, Entry]] = {}
        self._owed: dict[tuple[Kind, str], Entry] = {}
        self._results: dict[str, Entry] = {}
        for item in entries:
            if item.kind is Kind.ANSWER:
                self._answers.setdefault(item.round, {})[item.key] = item
            elif item.kind is Kind.RESULT:
                self._results[item.key] = item
            else:
                # A round that was answered in part asks the rest again; the handler asked those only once.
                self._owed.setdefault((item.kind, item.key), item)
            if item.kind is Kind.ASK:
                self._asks.setdefault(item.round, {})[item.key] = item
        self._main = [item for item in self._owed.values() if item.lane is Lane.MAIN]
        self._met: set[tuple[Kind, str]] = set()
        self._round = min((round_ for round_ in self._asks if round_ > 0), default=1)
        self._pool: dict[str, Entry] = {}

    @property
    def live(self) -> bool:
        """Whether everything recorded has been asked for again and delivered."""
        return len(self._met) == len(self._owed) and self._round not in self._answers

    def ask(self, key: str, fp: str, lane: Lane) -> Entry | None:
        """The handler asks. Returns the recorded answer where it was known before anybody was asked (round 0).

        Raises:
            DivergenceError: something else was recorded at this point, or under this key.
        """
        self._meet(Kind.ASK, key, fp, lane)
        return self._answers.get(0, {}).get(key)

    def once(self, key: str, fp: str, lane: Lane) -> Entry | Once:
        """The handler comes to a `once`: its recorded result, or what is known of it. Raises as `ask`."""
        if not self._meet(Kind.INTENT, key, fp, lane):
            return Once.LIVE
        return self._results.get(key, Once.IN_DOUBT)

    def value(self, key: str, fp: str, lane: Lane) -> Entry | None:
        """The handler wants a recorded value (`now`, `uuid4`, `random`), None where it must be made. Raises as
        `ask`."""
        return self._owed[Kind.VALUE, key] if self._meet(Kind.VALUE, key, fp, lane) else None

    def ready(self) -> tuple[Entry, ...]:
        """The answers that may be delivered now: those of the next round, once all its asks were asked again."""
        while self._round in self._answers:
            asks, answers = self._asks.get(self._round, {}), self._answers[self._round]
            if any((Kind.ASK, key) not in self._met for key in asks):
                return ()
            self._pool |= answers
            self._round += 1
            if asks.keys() <= answers.keys():
                pool, self._pool = self._pool, {}
                return tuple(pool.values())
        return ()

    def rest(self) -> tuple[Entry, ...]:
        """What rounds that were answered only in part have brought so far. Once live, it is delivered together with
        the answers that were missing; given once."""
        pool, self._pool = self._pool, {}
        return tuple(pool.values())

    def finish(self) -> None:
        """The handler ended. Raises DivergenceError where recorded entries were never asked for."""
        for place, item in self._owed.items():
            if place not in self._met:
                raise DivergenceError(
                    f"the handler ended without its recorded {item.kind.value} {item.key!r} (entry {item.n}); "
                    f"nothing was answered; {_LIKELY}"
                )

    def _meet(self, kind: Kind, key: str, fp: str, lane: Lane) -> bool:
        """Tick off a recorded entry; False where the handler is past the record."""
        item = self._owed.get((kind, key))
        expected = next((main for main in self._main if (main.kind, main.key) not in self._met), None)
        if lane is Lane.MAIN and expected is not None and item is not expected:
            raise DivergenceError(
                f"entry {expected.n} records {expected.kind.value} {expected.key!r}, but the handler came to "
                f"{kind.value} {key!r}; it was not continued; {_LIKELY}"
            )
        if item is None:
            return False
        if item.fp != fp:
            raise DivergenceError(
                f"entry {item.n} records {kind.value} {key!r} with another text, schema or arguments; "
                f"the handler was not continued; {_LIKELY}"
            )
        self._met.add((kind, key))
        return True
