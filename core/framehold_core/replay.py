"""The replay cursor: what a handler that is entered again gets to hear, and when (docs/protocol.md, rule 12).

What was heard is heard again in the recorded order, one *delivery* after the other: the answers of a round together,
the result of each effect by itself. A delivery comes only after the handler has come to each question and each effect
that was recorded before it. Recorded values are given at once.

What the handler's own task did is also checked strictly in order; other tasks of the handler may come in any order.
Asking for something else than was recorded is divergence, by name.

A driver calls `ask`, `once` and `value` when the handler does. Each time that the handler has settled it hands out what
`ready` returns. It calls `finish` when the handler ends. While `live` is false the client is asked nothing and no
effect runs: what is not recorded waits.

Keys and digests mean little to a person. So a driver that can open what is recorded gives `words` for it, and words for
each question and `once` that the handler comes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum

from .errors import DivergenceError
from .journal import Entry, EntryKind, EntryLane

CHANGED = "its code changed since then"
DEPENDS = (
    "it depends on something that is not recorded (a clock, a random number, a set's order, a global, what an effect "
    "outside once has done)"
)
LIKELY = f"{CHANGED}, or {DEPENDS}"
"""The two causes of most divergences, as an error names them."""


class Once(Enum):
    """What the journal knows of a `once` whose result is not recorded."""

    LIVE = "nothing recorded: run it"
    NO_RESULT = "intended, no result: it may have run, or may yet run"


Place = tuple[EntryKind, str, int]
"""Which recorded entry is meant: its kind, its key, and how often that key was answered before it. A handler may ask
again under a key that was answered."""


class Cursor:
    """A journal being replayed to one frame. Mutable.

    `words` gives an entry in an author's terms (a question's text, a function's name), "" where they are not known.
    `likely` is the cause of divergence that errors name."""

    def __init__(
        self, entries: Iterable[Entry], words: Callable[[Entry], str] = lambda item: "", likely: str = LIKELY
    ) -> None:
        self._words, self._likely = words, likely
        # Recorded questions and answers by round and key; results of `once` by key, with or without an intent.
        self._asks: dict[int, dict[str, Place]] = {}
        self._answers: dict[int, dict[str, Entry]] = {}
        self._results: dict[str, Entry] = {}
        # What the handler has to come to again: questions, intents and values.
        self._owed: dict[Place, Entry] = {}
        # What it hears, in the recorded order; `_given` is how many of these it has heard. A round that was answered
        # only in part is heard with the one that completes it; `_pool` are answers of rounds that none completed.
        self._deliveries: list[tuple[Entry, ...]] = []
        self._given = 0
        self._pool: dict[str, Entry] = {}
        self._read(tuple(entries))
        # What the next delivery may have to wait for, the last one first. A result without an intent waits for itself.
        self._ahead = [place for place, item in self._owed.items() if item.kind is not EntryKind.EFFECT][::-1]
        # What the handler's own task made, in order; `_next` is how far it came.
        self._main = [place for place, item in self._owed.items() if item.lane is EntryLane.MAIN]
        self._next = 0
        self._met: set[Place] = set()
        # How often each key was answered so far in this replay.
        self._times: Counter[str] = Counter()

    def _read(self, entries: tuple[Entry, ...]) -> None:
        times: Counter[str] = Counter()
        for item in entries:
            if item.kind is EntryKind.ANSWER:
                times[item.key] += 1
                self._answers.setdefault(item.round, {})[item.key] = item
                self._hears_answer(item)
            elif item.kind is EntryKind.ASK:
                # A round that was answered in part asks the rest again; the handler asked those only once.
                place = (item.kind, item.key, times[item.key])
                self._owed.setdefault(place, item)
                self._asks.setdefault(item.round, {})[item.key] = place
            elif item.kind in (EntryKind.RESULT, EntryKind.EFFECT):
                self._results[item.key] = item
                self._deliveries.append((item,))
                if item.kind is EntryKind.EFFECT:
                    # It stands for the intent, too.
                    self._owed.setdefault((EntryKind.INTENT, item.key, 0), item)
            else:
                self._owed.setdefault((item.kind, item.key, 0), item)

    def _hears_answer(self, item: Entry) -> None:
        """Add an answer to what the handler hears. Those of round 0 were known when they were asked for."""
        if item.round == 0:
            return
        self._pool[item.key] = item
        if self._asks.get(item.round, {}).keys() <= self._answers[item.round].keys():
            self._deliveries.append(tuple(self._pool.values()))
            self._pool = {}

    @property
    def live(self) -> bool:
        """Whether everything recorded has been asked for again and delivered."""
        return len(self._met) == len(self._owed) and self._given == len(self._deliveries)

    def ask(self, key: str, fingerprint: str, lane: EntryLane, words: str = "") -> Entry | None:
        """The handler asks. Returns the recorded answer where it was known before anybody was asked (round 0).

        Raises:
            DivergenceError: something else was recorded at this point, or under this key.
        """
        place = (EntryKind.ASK, key, self._times[key])
        self._meet(place, fingerprint, lane, words)
        if place != self._asks.get(0, {}).get(key):
            return None
        self._times[key] += 1
        return self._answers.get(0, {}).get(key)

    def once(self, key: str, fingerprint: str, lane: EntryLane, words: str = "") -> Entry | Once:
        """The handler comes to a `once`. Returns its recorded result, which `ready` gives in its turn, or what else is
        known of it.

        Raises:
            DivergenceError: something else was recorded at this point, or under this key.
        """
        if not self._meet((EntryKind.INTENT, key, 0), fingerprint, lane, words):
            return Once.LIVE
        return self._results.get(key, Once.NO_RESULT)

    def value(self, key: str, fingerprint: str, lane: EntryLane) -> Entry | None:
        """The handler wants a recorded value (`now`, `uuid4`, `random`). Returns None where it must be made now.

        Raises:
            DivergenceError: something else was recorded at this point, or under this key.
        """
        place = (EntryKind.VALUE, key, 0)
        return self._owed[place] if self._meet(place, fingerprint, lane, "") else None

    def ready(self) -> tuple[Entry, ...]:
        """What the handler hears next, now that it has settled: answers, or the result of an effect. Empty while it has
        not come to all that was recorded before that, and when nothing is left."""
        found = self._next_delivery()
        if found:
            self._given += 1
            self._times.update(item.key for item in found if item.kind is EntryKind.ANSWER)
        return found

    def takes(self, key: str) -> bool:
        """Whether the result of this effect is what `ready` would return; then it counts as given. The handler has
        settled but for the task that comes to the effect."""
        found = self._next_delivery()
        if not found or found[0].kind is EntryKind.ANSWER or found[0].key != key:
            return False
        self._given += 1
        return True

    def _next_delivery(self) -> tuple[Entry, ...]:
        if self._given == len(self._deliveries):
            return ()
        found = self._deliveries[self._given]
        # Taken from one end, so that a long journal isn't searched again for each delivery.
        while self._ahead and self._ahead[-1] in self._met:
            self._ahead.pop()
        if self._ahead and self._owed[self._ahead[-1]].n < found[-1].n:
            return ()
        if found[0].kind is not EntryKind.ANSWER and (EntryKind.INTENT, found[0].key, 0) not in self._met:
            return ()
        return found

    def rest(self) -> tuple[Entry, ...]:
        """The answers of rounds that were answered only in part, each given once. When the cursor is live they are
        delivered together with the answers that were missing."""
        pool, self._pool = self._pool, {}
        self._times.update(pool.keys())
        return tuple(pool.values())

    def finish(self) -> None:
        """The handler ended.

        Raises:
            DivergenceError: recorded entries were never asked for, or recorded answers never delivered. Results that
                are left are those of effects that it did not wait for.
        """
        left = self._deliveries[self._given :]
        if len(self._met) < len(self._owed) or any(found[0].kind is EntryKind.ANSWER for found in left):
            raise self._never("the handler ended")

    def overdue(self, seconds: float) -> DivergenceError:
        """The error of a handler that was given `seconds` and has not come to what is recorded."""
        return self._never(f"after {seconds:g} s the handler waits for something else")

    def _never(self, what: str) -> DivergenceError:
        """The error of a handler that did not come to the next thing recorded."""
        missed = next((item for place, item in self._owed.items() if place not in self._met), None)
        if missed is None:
            missed_words = self._unheard()
        else:
            missed_words = f"recorded is {self._described(missed)}, which it did not come to"
        return DivergenceError(f"{what}; {missed_words}; nothing was answered; likely {self._likely}")

    def _unheard(self) -> str:
        """The next delivery, which the handler did not wait for, in words."""
        found = self._deliveries[self._given]
        if found[0].kind is not EntryKind.ANSWER:
            return f"recorded is the result of {self._described(found[0])}, which it did not wait for"
        keys = ", ".join(sorted(repr(item.key) for item in found))
        return f"recorded are the answers of round {found[-1].round} ({keys}), which it did not wait for"

    def _described(self, item: Entry) -> str:
        return _named(item.kind, item.key, self._words(item)) + f" (entry {item.n})"

    def _meet(self, place: Place, fingerprint: str, lane: EntryLane, words: str) -> bool:
        """Mark the recorded entry that the handler came to as met; False where nothing more is recorded."""
        kind, key, _ = place
        # A `once` whose key is used again joins the first use, so nothing more was recorded of it. A question that was
        # given up and is asked again, in the same words, is the recorded one, too.
        joins = place in self._met and (kind is EntryKind.INTENT or self._owed[place].fp == fingerprint)
        expected = self._expected() if lane is EntryLane.MAIN and not joins else None
        owed = self._owed.get(place)
        wrong = self._owed[expected] if expected is not None and place != expected else None
        if wrong is None and owed is not None and owed.fp != fingerprint:
            wrong = owed
        if wrong is not None:
            raise DivergenceError(
                f"recorded is {self._described(wrong)}, but the handler came to {_named(kind, key, words)}"
                f"{', with another text, schema or arguments' if wrong is owed else ''}; "
                f"it was not continued; likely {self._likely}"
            )
        if owed is None:
            return False
        self._met.add(place)
        return True

    def _expected(self) -> Place | None:
        """The next entry that the handler's own task made; None where it made no more."""
        while self._next < len(self._main) and self._main[self._next] in self._met:
            self._next += 1
        return self._main[self._next] if self._next < len(self._main) else None


def _named(kind: EntryKind, key: str, words: str) -> str:
    name = "once" if kind in (EntryKind.INTENT, EntryKind.RESULT, EntryKind.EFFECT) else kind.value
    return f"{name} {key!r} ({words})" if words else f"{name} {key!r}"
