"""What a frame records beside its client's answers: results of effects (`once`), and values that would differ when they
are drawn again (`now`, `uuid4`, `random`). A replay returns the recorded ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from framehold_core import journal
from framehold_core.ids import CallId
from framehold_core.journal import Draft, EntryKind

from .effect_call import running_effect
from .entropy import Entropy
from .once import Effects
from .ports import FrameHost, RunningFrame
from .state_journal import StateJournal

Draw = Callable[[Entropy, str], Any]
"""Makes a value from a source of entropy and the key that the value is recorded under ("" if it is not recorded)."""


class FrameRecord:
    """The effects and values of one frame."""

    def __init__(self, frame: RunningFrame, journal: FrameHost) -> None:
        self._frame, self._journal = frame, journal
        self.state_journal = StateJournal(journal.call_id)
        self.effects = Effects(frame, journal, self.state_journal)
        self._counts: Counter[str] = Counter()
        self._values: dict[str, Any] = {}

    @property
    def origin(self) -> CallId:
        """The id of the call. A handler that returns its questions is entered as a new call in each round; then it is
        the id of the first of these calls."""
        return self.state_journal.call

    async def once(self, key: str, fn: Callable[..., Any], args: Any, kwargs: Any, idempotent: bool) -> Any:
        """Run `fn` at most once per call under `key`; see `Effects.once`."""
        return await self.effects.once(key, fn, args, kwargs, idempotent)

    def begin_again(self) -> None:
        """The handler is entered again in the same frame: its unnamed values are counted from the first one."""
        self._counts.clear()

    def state_entries(self) -> tuple[bytes, ...]:
        """Encoded entries for a state token; empty if nothing was recorded."""
        return self.state_journal.dump(self._journal.payloads)

    def value(self, kind: str, name: str | None, draw: Draw) -> Any:
        """The recorded value under `name`, or the next unnamed value of this kind; drawn and recorded if there is none.
        It must fit into JSON. Inside an effect it is drawn and not recorded.

        Raises:
            LimitExceeded: the call's journal is as long as it may be.
            asyncio.CancelledError: the frame was torn down, or the replay diverged.
        """
        if running_effect.get() is not None:
            # Replay returns the effect's recorded result, so values that the effect drew are not needed.
            return draw(self._journal.entropy, "")
        if name is None:
            self._counts[kind] += 1
        key = f"{kind}-{self._counts[kind]}" if name is None else f"{kind}:{name}"
        if key not in self._values:
            self._values[key] = self._value(kind, key, draw)
        return self._values[key]

    def _value(self, kind: str, key: str, draw: Draw) -> Any:
        payloads, past = self._journal.payloads, self.state_journal.entries.get((EntryKind.VALUE, key))
        if past is not None:
            return journal.parse(payloads.opened(self.state_journal.call, past))
        return self._frame.run_on_loop(lambda: self._drawn_value(kind, key, draw))

    def _drawn_value(self, kind: str, key: str, draw: Draw) -> Any:
        """The recorded value of this call, else one that is drawn and recorded. Runs on the handler's loop."""
        payloads, lane = self._journal.payloads, self._frame.lane()
        if self._frame.replay is not None:
            found = self._frame.replayed(lambda replay: replay.cursor.value(key, kind, lane))
            if found is not None:
                data = self._frame.replayed(lambda _: payloads.opened(self._journal.call_id, found))
                # The call's record has it, the state does not yet: the handler may still return a question.
                self.state_journal.added.append(Draft(EntryKind.VALUE, key, found.round, lane, kind, "json", data))
                return journal.parse(data)
        if self._frame.dead:
            raise asyncio.CancelledError(f"this call's frame is gone: {kind}() comes too late")
        self._journal.admit(f"framehold.{kind}()")
        value = draw(self._journal.entropy, key)
        draft = Draft(EntryKind.VALUE, key, self._frame.round, lane, kind, "json", journal.canonical(value))
        self.state_journal.added.append(draft)
        self._journal.noted((draft,))
        return value
